"""Prices: pages of many items, whose price is the text of the page's link."""

from __future__ import annotations

from collections.abc import Iterator

from crawlframe import Request, Response, Spider


class Prices(Spider):
    name = "prices"
    settings = {"concurrency": 8, "delay": 0}

    def start(self, url: str, pages: int, each: int = 50) -> Iterator[Request]:
        for page in range(pages):
            yield Request(f"{url}{page}", cb_kwargs={"each": each})

    def parse(self, response: Response, each: int) -> Iterator[dict[str, str | None]]:
        price = response.css("a::text").get()
        for number in range(each):
            yield {"sku": f"{response.url}/{number}", "price": price}
