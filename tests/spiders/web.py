"""A small web of hand-written pages on loopback."""

from __future__ import annotations

import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Answer(NamedTuple):
    body: str | bytes = ""
    type: str | None = "text/html; charset=utf-8"
    status: int = 200
    headers: dict[str, str] = {}


def redirect(to: str, status: int = 302) -> Answer:
    return Answer(status=status, headers={"Location": to})


class Web:
    """``with Web({"/": Answer("<a href=two>")}) as web: web.url``; ``asked`` counts each target.

    ``{here}`` in a Location header stands for the web's own host and port."""

    def __init__(self, answers: dict[str, Answer]) -> None:
        self.asked: Counter[str] = Counter()
        web = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                web.asked[self.path] += 1
                answer = answers.get(self.path, Answer("not here", status=404))
                body = answer.body.encode() if isinstance(answer.body, str) else answer.body
                self.send_response(answer.status)
                if answer.type is not None:
                    self.send_header("Content-Type", answer.type)
                for name, value in answer.headers.items():
                    self.send_header(name, value.replace("{here}", web.host))
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self.host = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.host}"

    def __enter__(self) -> Web:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
