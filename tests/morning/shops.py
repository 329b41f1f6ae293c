"""Shops: small sites on loopback addresses that change, hang, or refuse."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SHOPS, FEED, REVIEWS = "127.0.7.1", "127.0.7.2", "127.0.7.3"  # an address each
LONG = 7200  # seconds that a refusal asks to wait
WORDS = ("Chair", "Lamp", "Table", "Shelf", "Clock", "Mirror", "Carpet", "Stool")


class Shops:
    """``with Shops(pages) as shops``. At SHOPS, shops of ``pages`` products each below paths such
    as /shop-01/, whose pages change once they are in ``changed``. FEED answers its first page, and
    nothing more before ``release``. REVIEWS refuses everything while it is ``strict``. ``bad``:
    when each shop served its first changed page, and when the others first hung or refused, as Unix
    times by name."""

    def __init__(self, pages: int, latency: float = 0.0) -> None:
        self.changed: set[str] = set()
        self.strict = False
        self.bad: dict[str, float] = {}
        self._pages, self._latency = pages, latency
        self._released = threading.Event()
        answers = {SHOPS: self._shop, FEED: self._feed, REVIEWS: self._reviews}
        self._servers = {address: _server(address, page) for address, page in answers.items()}

    def __enter__(self) -> Shops:
        for server in self._servers.values():
            threading.Thread(target=server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.release()
        for server in self._servers.values():
            server.shutdown()
            server.server_close()

    def url(self, address: str, path: str = "") -> str:
        return f"http://{address}:{self._servers[address].server_port}/{path}"

    def release(self) -> None:
        """Answers what hangs."""
        self._released.set()

    def _shop(self, path: str) -> tuple[int, str]:
        name, _, number = path.strip("/").partition("/")
        time.sleep(self._latency)
        if not number:
            return 200, "".join(f'<a href="/{name}/{n}">{n}</a> ' for n in range(self._pages))
        n = int(number)
        title, price = f"{WORDS[n % len(WORDS)]} no. {n}", f"{20 + n % 60}.90"
        if name not in self.changed:
            return 200, f'<h1>{title}</h1><p class="price">{price}</p><p class="stock">yes</p>'
        self.bad.setdefault(name, time.time())
        return 200, f'<h1>{title}</h1><p class="amount">{price}</p><p class="stock">yes</p>'

    def _feed(self, path: str) -> tuple[int, str]:
        if path == "/":
            return 200, '<a href="/next">next</a>'
        self.bad.setdefault("feed", time.time())
        self._released.wait()
        return 200, ""

    def _reviews(self, path: str) -> tuple[int, str]:
        if not self.strict:
            return 200, "<h1>Review</h1>"
        self.bad.setdefault("reviews", time.time())
        return 429, ""


def _server(address: str, page: Any) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, text = (404, "") if self.path == "/robots.txt" else page(self.path)
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            if status == 429:
                self.send_header("Retry-After", str(LONG))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 256

    return Server((address, 0), Handler)
