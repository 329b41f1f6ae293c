"""The standard job as a user writes it: with the fast tree, and in Scrapy's style with parsel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crawlframe import Request, Response, Spider

IN_FLIGHT = 256  # on the one host, over all workers; each worker has its own, lower limit


class Standard(Spider):
    """Every page of the site, with the fast tree."""

    name = "standard"
    settings = {"concurrency": IN_FLIGHT, "delay": 0}

    def start(self, url: str) -> Iterator[Request]:
        yield Request(url)

    def parse(self, response: Response) -> Iterator[Any]:
        page: Any = response.tree
        links = response.links()
        yield {
            "url": response.url,
            "title": page.css_first("title").text(),
            "h1": page.css_first("h1").text(),
            "price": float(page.css_first(".amount").text()),
            "date": page.css_first("time").attributes["datetime"],
            "author": page.css_first(".author").text(),
            "links": len(links),
        }
        yield from response.follow_all(links)


class StandardParsel(Spider):
    """The same with ``response.css``."""

    name = "standard_parsel"
    settings = {"concurrency": IN_FLIGHT, "delay": 0}

    def start(self, url: str) -> Iterator[Request]:
        yield Request(url)

    def parse(self, response: Response) -> Iterator[Any]:
        links = response.css("a::attr(href)").getall()
        yield {
            "url": response.url,
            "title": response.css("title::text").get(),
            "h1": response.css("h1::text").get(),
            "price": float(response.css(".amount::text").get("")),
            "date": response.css("time::attr(datetime)").get(),
            "author": response.css(".author::text").get(),
            "links": len(links),
        }
        yield from response.follow_all(links)
