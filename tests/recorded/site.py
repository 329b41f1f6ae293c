"""A small site on loopback with everything that recordings must keep, and a spider for it."""

from __future__ import annotations

import gzip
import ipaddress
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from crawlframe.conf import Settings

SETTINGS = Settings(allow_private=(ipaddress.ip_network("127.0.0.0/8"),))
TOKEN, SESSION, CSRF = "tok-3n-s3cr3t!", "sess10n0123456789", "csrf0123456789abcdef"
REFRESH = "refresh-0123456789"
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256))

SHELF = """<!DOCTYPE html><title>Shelf</title>
<a class="book" href="/book/emma">Emma</a> <a class="book" href="/book/gone">Gone</a>
<a class="book" href="/old/emma">Old</a>
<form action="/search" method="post"><input name="q"><input type="hidden" name="csrf_token"
value="{csrf}"><input type="password" name="password"></form>"""


class Site(ThreadingHTTPServer):
    """``asked`` counts requests by path; ``price`` of each book."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: Counter[str] = Counter()
        self.price = "12.50"
        self.robots = "User-agent: *\nDisallow: /private\nCrawl-delay: 0"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Site

    def log_message(self, *args: Any) -> None:
        """Logs nothing."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked[f"POST {self.path}"] += 1
        if self.path == "/token":
            self._send(
                json.dumps({"access_token": TOKEN, "refresh_token": REFRESH, "for": len(body)}),
                "application/json",
            )
        else:
            self._send(f"<h1>Found</h1><p>{body}</p><p>{self.headers.get('Cookie')}</p>")

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.server.asked[self.path] += 1
        match path.strip("/").split("/"):
            case ["robots.txt"]:
                self._send(self.server.robots, "text/plain")
            case ["shelf"]:
                self._send(SHELF.format(csrf=CSRF), cookie=f"session={SESSION}; Path=/")
            case ["book", "gone"]:
                self.send_error(404)
            case ["book", name]:
                self._send(f"<h1>{name}</h1><b>{self.server.price}</b>", packed=True)
            case ["old", name]:
                self.send_response(301)
                self.send_header("Location", f"/book/{name}-2")
                self.end_headers()
            case ["stock.json"]:
                self._send(json.dumps({"stock": 3}), "application/json")
            case ["recording" | "v1.2" | "V1.2" | "a.page"]:
                self._send('{"a": 1}', "application/json")
            case ["script"]:
                self._send("<p></p><script>document.body.innerHTML += `<b>${3+4}</b>`</script>")
            case ["cover.png"]:
                self._send(PICTURE, "image/png")
            case ["cut"]:
                self.send_response(200)
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.close_connection = True
            case _:
                self._send(f"<h1>{path}</h1><p>{self.headers.get('Authorization')}</p>")

    def _send(
        self, body: str | bytes, kind: str = "text/html", cookie: str = "", packed: bool = False
    ) -> None:
        data = body.encode() if isinstance(body, str) else body
        data = gzip.compress(data) if packed else data
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        if cookie:
            self.send_header("Set-Cookie", cookie)
        if packed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def running() -> Iterator[Site]:
    site = Site()
    thread = threading.Thread(target=site.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield site
    finally:
        site.shutdown()
        site.server_close()
        thread.join(30)
