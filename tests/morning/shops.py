"""Shops: small sites on loopback addresses that change, hang, or refuse."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SHOPS, FEED, REVIEWS = "127.0.7.1", "127.0.7.2", "127.0.7.3"  # an address each
Answer = tuple[int, str | Iterator[str]]  # status, and the page or its parts
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
        """Answers the hanging requests."""
        self._released.set()

    def _shop(self, path: str) -> Answer:
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

    def _feed(self, path: str) -> Answer:
        if path == "/":
            return 200, '<a href="/next">next</a>'
        self.bad.setdefault("feed", time.time())
        return 200, self._endless()

    def _endless(self) -> Iterator[str]:
        """Enough letters for the transfer not to count as dead."""
        while not self._released.wait(1):
            yield "." * 100

    def _reviews(self, path: str) -> Answer:
        if not self.strict:
            return 200, "<h1>Review</h1>"
        self.bad.setdefault("reviews", time.time())
        return 429, ""


def _server(address: str, page: Callable[[str], Answer]) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, text = (404, "") if self.path == "/robots.txt" else page(self.path)
            self.send_response(status)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            if isinstance(text, str):
                self.send_header("Content-Length", str(len(text.encode())))
            else:
                self.send_header("Connection", "close")
                self.close_connection = True
            if status == 429:
                self.send_header("Retry-After", str(LONG))
            self.end_headers()
            for part in [text] if isinstance(text, str) else text:
                self.wfile.write(part.encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 256

        def handle_error(self, request: Any, client_address: Any) -> None:
            """The node that dies breaks its connections."""

    return Server((address, 0), Handler)
