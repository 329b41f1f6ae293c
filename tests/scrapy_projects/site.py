"""A local site with the pages that Scrapy's kinds of spiders are made for."""

from __future__ import annotations

import gzip
import json
import threading
from collections import Counter
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

PAGES, PER_PAGE = 3, 4
TOKEN = "t0ken"


def _page(body: str, head: str = "") -> bytes:
    return f"<html><head><title>shop</title>{head}</head><body>{body}</body></html>".encode()


def listing(page: int) -> bytes:
    numbers = range((page - 1) * PER_PAGE, page * PER_PAGE)
    links = "".join(f'<a class="item" href="/item/{n}">Item {n}</a>' for n in numbers)
    following = f'<a class="next" href="/list?page={page + 1}">next</a>' if page < PAGES else ""
    return _page(f'<div class="items">{links}</div>{following}<a href="/private">members</a>')


def item(number: int) -> bytes:
    return _page(
        f'<h1> Item {number} </h1><span class="price">EUR {number}.50</span>'
        f'<ul><li>red</li><li>blue</li></ul><a class="related" href="/item/{number // 2}">more</a>'
    )


class Site:
    """``with Site() as site: site.url``; ``asked`` counts the paths."""

    def __enter__(self) -> Site:
        self.asked: Counter[str] = Counter()
        self.headers: dict[str, dict[str, str]] = {}  # of the last request for a path
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                site.answer(self, b"")

            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                site.answer(self, self.rfile.read(size))

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, handler: BaseHTTPRequestHandler, sent: bytes) -> None:
        parts = urlsplit(handler.path)
        self.asked[parts.path] += 1
        self.headers[parts.path] = dict(handler.headers.items())
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        status, kind, body, headers = self.page(handler, parts.path, query, sent)
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    def page(
        self, handler: BaseHTTPRequestHandler, path: str, query: dict[str, str], sent: bytes
    ) -> tuple[int, str, bytes, dict[str, str]]:
        html, xml = "text/html; charset=utf-8", "application/xml"
        cookies = SimpleCookie(handler.headers.get("Cookie", ""))
        match path.strip("/").split("/"):
            case ["list"]:
                return 200, html, listing(int(query.get("page", 1))), {}
            case ["moves"]:
                kinds = ("item", "old", "older", "fresh")
                links = "".join(f'<a href="/{kind}/{n}">x</a>' for n in range(6) for kind in kinds)
                return 200, html, _page(links), {}
            case [("old" | "older") as kind, number]:
                return (301 if kind == "old" else 307), html, b"", {"Location": f"/item/{number}"}
            case ["fresh", number]:
                head = f'<meta http-equiv="refresh" content="0; url=/item/{number}">'
                return 200, html, _page("moving", head), {}
            case ["item", number]:
                return 200, html, item(int(number)), {}
            case ["login"] if handler.command == "POST":
                form = {name: values[0] for name, values in parse_qs(sent.decode()).items()}
                good = form.get("csrf") == "c5rf" and form.get("password") == "secret"
                headers = {"Set-Cookie": f"user={form.get('user')}; Path=/"} if good else {}
                return (302 if good else 403), html, b"", {**headers, "Location": "/private"}
            case ["login"]:
                form_ = (
                    '<form action="/login" method="post"><input type="hidden" name="csrf" '
                    'value="c5rf"><input name="user"><input type="password" name="password"></form>'
                )
                return 200, html, _page(form_), {}
            case ["private"]:
                if "user" in cookies:
                    return 200, html, _page(f"<b>hello {cookies['user'].value}</b>"), {}
                return 403, html, _page("<b>no</b>"), {}
            case ["echo", *_]:
                seen = {name: one.value for name, one in cookies.items()}
                names = ("referer", "user-agent", "x-shop", "authorization")
                kept = {n: handler.headers[n] for n in names if handler.headers.get(n)}
                return 200, "application/json", json.dumps({"c": seen, "h": kept}).encode(), {}
            case ["sitemap.xml"]:
                maps = "".join(
                    f"<sitemap><loc>{self.url}/{name}</loc></sitemap>"
                    for name in ("items.xml", "more.xml.gz")
                )
                return 200, xml, f"<sitemapindex>{maps}</sitemapindex>".encode(), {}
            case ["items.xml"]:
                return 200, xml, self._sitemap(range(0, 4)), {}
            case ["more.xml.gz"]:
                return 200, "application/gzip", gzip.compress(self._sitemap(range(4, 6))), {}
            case ["feed.xml"]:
                rows = "".join(f"<item><id>{n}</id><name>N{n}</name></item>" for n in range(5))
                return 200, xml, f"<?xml version='1.0'?><all>{rows}</all>".encode(), {}
            case ["feed.csv"]:
                rows = "".join(f"{n};N{n}\n" for n in range(5))
                return 200, "text/csv", f"id;name\n{rows}".encode(), {}
            case ["api", "token"]:
                good = json.loads(sent) == {"key": "k"}
                return (
                    200,
                    "application/json",
                    json.dumps({"token": TOKEN if good else ""}).encode(),
                    {},
                )
            case ["api", "items"]:
                if handler.headers.get("X-Token") != TOKEN:
                    return 401, "application/json", b"{}", {}
                page = json.loads(sent)["page"]
                following = page + 1 if page < 3 else None
                body = {"items": [{"id": f"{page}-{n}"} for n in range(3)], "next": following}
                return 200, "application/json", json.dumps(body).encode(), {}
            case ["moved"]:
                return 302, html, b"", {"Location": "/item/1"}
            case ["refresh"]:
                head = '<meta http-equiv="refresh" content="0; url=/item/3">'
                return 200, html, _page("moving", head), {}
            case ["gone"]:
                return 410, html, _page("<b>gone</b>"), {}
            case ["broken"]:
                return 500, html, _page("<b>broken</b>"), {}
            case _:
                return 404, html, _page("<b>not here</b>"), {}

    def _sitemap(self, numbers: range) -> bytes:
        urls = "".join(f"<url><loc>{self.url}/item/{n}</loc></url>" for n in numbers)
        return f"<urlset>{urls}</urlset>".encode()
