"""Nginx: a directory over HTTP on loopback, as it is, with a log that tells who asked for what."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

TYPES = {
    "text/html": "html htm shtml",
    "application/xhtml+xml": "xhtml",
    "text/css": "css",
    "text/javascript": "js mjs",
    "text/plain": "txt conf md",
    "text/xml": "xml dtd ent",
    "application/json": "json",
    "application/pdf": "pdf",
    "application/gzip": "gz",
    "application/zip": "zip",
    "image/png": "png",
    "image/jpeg": "jpg jpeg",
    "image/gif": "gif",
    "image/svg+xml": "svg",
    "image/x-icon": "ico",
    "font/woff2": "woff2",
}
# Names such as index.html.ja.utf8 say language and charset, as Apache's MultiViews reads them.
CHARSETS = {
    "utf-?8": "utf-8",
    "euc-kr": "euc-kr",
    "euc-jp": "euc-jp",
    "iso-2022-jp": "iso-2022-jp",
    "koi8-r": "koi8-r",
    "iso8859-1|latin1": "iso-8859-1",
    "gb2312": "gb2312",
    "big5": "big5",
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

    Raises FileNotFoundError without nginx on PATH, RuntimeError with nginx's words when it does
    not start."""

    def __init__(self, root: Path, work: Path) -> None:
        program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
        if program is None:
            raise FileNotFoundError("nginx is not installed; on Debian: apt install nginx-light")
        self._work = work
        self._log = work / "access.log"
        self._config = work / "nginx.conf"
        self._port = _free_port()
        self._config.write_text(self._configuration(root.resolve()))
        self._command = [program, "-p", str(work), "-c", str(self._config), "-e", "error.log"]
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{self._port}/"

    def _configuration(self, root: Path) -> str:
        types = "".join(f"    {kind} {endings};\n" for kind, endings in TYPES.items())
        temp = "".join(
            f"  {kind}_temp_path {self._work / kind};\n"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        charsets = "".join(
            f'    location ~* "\\.html.*\\.({suffix})$" '
            f"{{ types {{ }} default_type text/html; charset {charset}; }}\n"
            for suffix, charset in CHARSETS.items()
        )
        return (
            "daemon off;\nmaster_process off;\npid nginx.pid;\n"
            "events { worker_connections 1024; }\n"
            f"http {{\n{temp}  types {{\n{types}  }}\n  default_type application/octet-stream;\n"
            f"  log_format crawl escape=json '{LOG_FORMAT}';\n"
            f"  access_log {self._log} crawl;\n  sendfile on;\n  keepalive_requests 100000;\n"
            f"  server {{\n    listen 127.0.0.1:{self._port};\n    root {root};\n"
            f"    index index.html;\n{charsets}"
            '    location ~* "\\.html\\.[a-z-]+$" { types { } default_type text/html; }\n'
            "  }\n}\n"
        )

    def hits(self, agent: str) -> list[Hit]:
        """What the client whose User-Agent contains ``agent`` has asked so far, in order."""
        with self._log.open() as lines:
            entries = map(json.loads, lines)
            hits = [Hit(**{**entry, "type": _media_type(entry["type"])}) for entry in entries]
        return [hit for hit in hits if agent in hit.agent]

    def __enter__(self) -> Nginx:
        self._process = subprocess.Popen(self._command, stderr=subprocess.PIPE)
        for _ in range(200):
            if self._process.poll() is not None:
                raise RuntimeError(f"nginx does not start: {self._words()}")
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return self
            time.sleep(0.05)
        self._process.kill()
        raise RuntimeError(f"nginx does not listen on port {self._port}: {self._words()}")

    def _words(self) -> str:
        assert self._process is not None
        return self._process.communicate()[1].decode(errors="replace").strip()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.communicate()


def _media_type(header: str) -> str:
    return header.partition(";")[0].strip().lower()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
