"""Nginx: a directory over HTTP on loopback, with one process and endless keep-alive."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from crawlservice.cli.process_group import die_with_parent

TYPES = {
    "text/html": "html",
    "text/css": "css",
    "text/plain": "txt",
    "application/pdf": "pdf",
    "image/png": "png",
}
LOG_FORMAT = (
    '{"agent":"$http_user_agent","uri":"$request_uri","status":$status,'
    '"type":"$sent_http_content_type","bytes":$body_bytes_sent}'
)


class Hit(NamedTuple):
    """One answered request."""

    agent: str
    uri: str  # path and query as asked
    status: int
    type: str  # media type without parameters
    bytes: int  # of the body


class Nginx:
    """``with Nginx(directory, work) as nginx: nginx.url``; ``work`` takes configuration and logs.
    ``log``: keep a log for ``hits``. ``locations``: further lines of the server's configuration.
    ``tls``: a file with key and certificate, for TLS 1.3 on all addresses of loopback; ``ports``
    are those of HTTP/1.1 and HTTP/2 then. ``everywhere``: on all of them without TLS.

    Raises FileNotFoundError without nginx on PATH, RuntimeError with nginx's words when it does
    not start."""

    def __init__(
        self,
        root: Path,
        work: Path,
        *,
        log: bool = True,
        locations: str = "",
        tls: Path | None = None,
        everywhere: bool = False,
    ) -> None:
        self._program = find_program()
        self._work = work
        self._log = work / "access.log" if log else None
        config = work / "nginx.conf"
        self.port = _free_port()
        self.ports = (self.port, _free_port())
        self._listen = [f"127.0.0.1:{self.port}"]
        if everywhere:
            self._listen = [str(self.port)]
            locations += "    allow 127.0.0.0/8;\n    deny all;\n"
        if tls is not None:
            self._listen = [f"{self.port} ssl", f"{self.ports[1]} ssl http2"]
            locations += (
                f"    ssl_certificate {tls};\n    ssl_certificate_key {tls};\n"
                "    ssl_protocols TLSv1.3;\n"
            )
        config.write_text(self._configuration(root.resolve(), locations))
        self._command = [self._program, "-p", str(work), "-c", str(config), "-e", "error.log"]
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{self.port}/"

    def _configuration(self, root: Path, locations: str) -> str:
        types = "".join(f"    {kind} {endings};\n" for kind, endings in TYPES.items())
        temp = "".join(
            f"  {kind}_temp_path {self._work / kind};\n"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        log = f"{self._log} crawl" if self._log else "off"
        listen = "".join(f"    listen {one} backlog=4096;\n" for one in self._listen)
        return (
            "daemon off;\nmaster_process off;\npid nginx.pid;\n"
            "events { worker_connections 4096; }\n"
            f"http {{\n{temp}  types {{\n{types}  }}\n  default_type application/octet-stream;\n"
            f"  log_format crawl escape=json '{LOG_FORMAT}';\n"
            f"  access_log {log};\n  sendfile on;\n"
            "  keepalive_requests 1000000000;\n  keepalive_timeout 1h;\n"
            f"  server {{\n{listen}    root {root};\n"
            f"    index index.html;\n{locations}"
            "  }\n}\n"
        )

    def hits(self, agent: str) -> list[Hit]:
        """The requests so far of the client whose User-Agent contains ``agent``, in order."""
        if self._log is None:
            raise ValueError("this Nginx was made with log=False, so it knows no hits")
        with self._log.open() as lines:
            entries = map(json.loads, lines)
            hits = [Hit(**{**entry, "type": _media_type(entry["type"])}) for entry in entries]
        return [hit for hit in hits if agent in hit.agent]

    def version(self) -> str:
        """The version, such as "nginx 1.22.1"."""
        done = subprocess.run([self._program, "-v"], capture_output=True, text=True)
        return done.stderr.strip().rpartition(": ")[2].replace("/", " ")

    def __enter__(self) -> Nginx:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the benchmark, which stops the server
            preexec_fn=die_with_parent(signal.SIGKILL),
        )
        for _ in range(200):
            if self._process.poll() is not None:
                raise RuntimeError(f"nginx does not start: {self._words()}")
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            time.sleep(0.05)
        self._process.kill()
        raise RuntimeError(f"nginx does not listen on port {self.port}: {self._words()}")

    def _words(self) -> str:
        assert self._process is not None
        return self._process.communicate()[1].decode(errors="replace").strip()

    def __exit__(self, *error: object) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.communicate()


def find_program() -> str:
    """The path of nginx. Raises FileNotFoundError."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        raise FileNotFoundError("nginx is not installed; on Debian: apt install nginx-light")
    return program


def _media_type(header: str) -> str:
    return header.partition(";")[0].strip().lower()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
