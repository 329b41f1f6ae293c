"""Small pages that cost no fetch, and one item of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from crawlframe import CallNext, Request, Response, Spider

HOSTS = 100
ROW = '<li class="house" data-number="{n}"><a href="/houses/{n}">House {n}</a> {price} EUR</li>\n'


class Made:
    """Answers every request itself, with a page of about 3 KB."""

    async def fetch(self, request: Request, call_next: CallNext) -> Response:
        n = int(request.url.rpartition("/")[2])
        rows = "".join(ROW.format(n=n + k, price=n * 7919 % 999_983 + k) for k in range(32))
        body = f"<html><title>House {n}</title><ul>{rows}</ul><p class=price>{n}</p></html>"
        return Response(request.url, 200, {"Content-Type": "text/html"}, body.encode(), request)


class HousesSpider(Spider):
    name = "houses"
    settings = {"concurrency": 256, "delay": 0, "robots": False, "keep": "all"}
    middlewares: ClassVar[list[Any]] = [Made]

    def start(self, pages: int) -> Iterator[Request]:
        for n in range(pages):
            yield Request(f"https://shop{n % HOSTS}.example/houses/{n}")

    def parse(self, response: Response) -> Iterator[dict[str, Any]]:
        node = response.tree.css_first("p.price")
        yield {"url": response.url, "price": int(node.text()) if node else None}
