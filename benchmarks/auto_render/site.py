"""Site: twelve types of pages, of which some need a browser. It counts who has fetched what."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

KINDS = {
    "static": "complete as it is sent",
    "script": "all by a script",
    "half": "half of the fields by a script",
    "data": "JSON in a script element",
    "scroll": "infinite scroll",
    "gap": "a field truly missing on 10 %",
    "to_script": "by a script from half of the pages on",
    "to_static": "by a script up to half of the pages",
    "errors": "404, 500 and pages without an article mixed in",
    "variants": "two variants at random",
    "slow": "by a script that waits for a slow answer",
    "noscript": "a shell with a noscript text",
}
CARDS, BATCH = 9, 3  # items of a page of the type scroll, in all and at a time
SLOW = 0.8  # seconds
TEN, SHARES = 10, 100  # per cent

Item = dict[str, Any]


def chance(kind: str, number: int) -> int:
    """The same number from 0 to 99 for the same page."""
    return hashlib.blake2b(f"{kind}/{number}".encode()).digest()[0] * SHARES // 256


def ends_well(kind: str, number: int) -> bool:
    """Whether the page is not a 404 in the end."""
    return kind != "errors" or chance(kind, number) >= TEN


def items_of(kind: str, number: int) -> list[Item]:
    """The items that a reader with a browser finds."""
    if kind == "scroll":
        return [_item(f"{kind} {number} {card}", number + card) for card in range(CARDS)]
    if kind == "errors" and chance(kind, number) < 2 * TEN:
        return []
    if kind == "gap" and chance(kind, number) < TEN:
        return [{"name": f"{kind} {number}", "price": None}]
    return [_item(f"{kind} {number}", number)]


def needs_browser(kind: str, number: int, pages: int) -> bool:
    """Whether its plain page, of so many of this type, lacks an item or a field. What the oracle
    knows."""
    match kind:
        case "script" | "half" | "scroll" | "slow" | "noscript":
            return True
        case "to_script":
            return number >= pages // 2
        case "to_static":
            return number < pages // 2
        case "variants":
            return chance(kind, number) < SHARES // 2
    return False


def _item(name: str, price: int) -> Item:
    return {"name": name, "price": f"{price}.50"}


def article(item: Item) -> str:
    price = "" if item["price"] is None else f"<b class=price>{item['price']}</b>"
    return f"<article><h2>{item['name']}</h2>{price}</article>"


HEAD = "<!doctype html><title>shop</title><nav><a href=/>home</a></nav>"


def body_of(kind: str, number: int, pages: int) -> str:
    """The page as it is sent."""
    found = items_of(kind, number)
    whole = "".join(map(article, found))
    if kind == "half":
        price = json.dumps(found[0]["price"])
        return (
            f"{HEAD}<article><h2>{found[0]['name']}</h2></article><script>document.querySelector("
            f"'article').insertAdjacentHTML('beforeend', '<b class=price>' + {price} + '</b>')"
            "</script>"
        )
    if kind == "data":
        return f"{HEAD}<script type=application/json id=data>{json.dumps(found)}</script>"
    if kind == "scroll":
        first = "".join(map(article, found[:BATCH]))
        return f"""{HEAD}<main>{first}</main><p id=more>more</p><script>
let next = {BATCH};
new IntersectionObserver(async (entries, observer) => {{
  if (!entries[0].isIntersecting) return;
  observer.unobserve(more);
  const part = await (await fetch(`/api/scroll/{number}/${{next}}`)).json();
  document.querySelector("main").insertAdjacentHTML("beforeend", part.html);
  next += {BATCH};
  if (part.last) more.remove(); else observer.observe(more);
}}).observe(more);</script>"""
    if kind == "slow":
        return (
            f"{HEAD}<main></main><script>fetch('/api/slow/{number}/0').then(r => r.json()).then("
            "part => document.querySelector('main').innerHTML = part.html)</script>"
        )
    if kind == "noscript":
        return (
            f"{HEAD}<noscript><p>Enable JavaScript to see this shop.</p></noscript><div id=root>"
            f"</div><script>root.innerHTML = {json.dumps(whole)}</script>"
        )
    if needs_browser(kind, number, pages):
        return f"{HEAD}<main></main><script>document.querySelector('main').innerHTML = " + (
            f"{json.dumps(whole)}</script>"
        )
    return HEAD + whole


class Site:
    """``with Site(pages) as site: site.url``. A browser is known by its header Sec-Fetch-Mode."""

    def __init__(self, pages: int) -> None:
        """``pages``: of each type."""
        self.plain: Counter[str] = Counter()
        self.rendered: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._failed: set[str] = set()
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                mode = self.headers.get("Sec-Fetch-Mode", "")
                status, kind, body = site._answer(self.path, mode, pages)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                with suppress(OSError):
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"

    def _answer(self, path: str, mode: str, pages: int) -> tuple[int, str, bytes]:
        _, kind, *rest = path.split("/")
        if kind == "api":
            return 200, "application/json", self._part(*rest)
        if kind not in KINDS:
            return 404, "text/plain", b""
        number = int(rest[0])
        with self._lock:
            if mode in ("", "navigate"):
                (self.rendered if mode else self.plain)[path] += 1
            fails = kind == "errors" and chance(kind, number) >= SHARES - TEN
            first = path not in self._failed
            self._failed.add(path)
        if not ends_well(kind, number):
            return 404, "text/html", b"<p>gone"
        if fails and first:
            return 500, "text/html", b"<p>an error"
        return 200, "text/html; charset=utf-8", body_of(kind, number, pages).encode()

    def _part(self, kind: str, number: str, begin: str) -> bytes:
        """What a script of a page asks for."""
        found, start = items_of(kind, int(number)), int(begin)
        if kind == "slow":
            time.sleep(SLOW)
            start, end = 0, len(found)
        else:
            end = start + BATCH
        html = "".join(map(article, found[start:end]))
        return json.dumps({"html": html, "last": end >= len(found)}).encode()

    def __enter__(self) -> Site:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
