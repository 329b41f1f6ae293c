"""A receiver of webhooks: a real HTTP server on loopback that keeps the messages it gets."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Told:
    path: str
    headers: Mapping[str, str]
    body: bytes
    at: float = field(default_factory=time.time)  # Unix time at which it arrived

    @property
    def content(self) -> Any:
        return json.loads(self.body)


class Receiver:
    """``answers``: path -> status; the default is 204. ``hang``: paths that only answer after a
    release. ``location``: the target of a 302. ``texts``: path -> the body of the answer."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.answers: dict[str, int] = {}
        self.texts: dict[str, bytes] = {}
        self.hang: set[str] = set()
        self.location = ""
        self.released = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.told.append(Told(self.path, self.headers, body))  # type: ignore[arg-type]
                if self.path in receiver.hang:
                    receiver.released.wait(60)
                text = receiver.texts.get(self.path, b"<b>sorry</b>")
                self.send_response(receiver.answers.get(self.path, 200))
                self.send_header("Content-Length", str(len(text)))
                if receiver.location:
                    self.send_header("Location", receiver.location)
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def wait(self, count: int, path: str = "", timeout: float = 30) -> list[Told]:
        """The messages received, once there are ``count`` of them."""
        deadline = time.monotonic() + timeout
        while True:
            found = [told for told in self.told if path in ("", told.path)]
            if len(found) >= count:
                return found
            assert time.monotonic() < deadline, f"only {len(found)} of {count} came"
            time.sleep(0.02)

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


def verify(told: Told, secret: str) -> bool:
    """Verifies a message as in the example of the documentation."""
    page = (Path(__file__).parents[2] / "docs" / "schedules.md").read_text()
    (example,) = re.findall(r"```python\n(import base64.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    return bool(names["is_ours"](told.headers, told.body, secret))
