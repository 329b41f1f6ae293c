"""ProxyList: a spider that fills the pool of proxies from pages with a table of them."""

from __future__ import annotations

from typing import Any

from crawlframe import Proxy, Request, Spider


class ProxyList(Spider):
    """The pages at ``url`` have a table whose rows are host, port, country and kind."""

    name = "proxy_list"

    def start(self, url: str) -> Any:
        yield Request(url)

    def parse(self, response: Any) -> Any:
        for row in response.css("table tr"):
            host, port, country, kind, *_ = [*row.css("td::text").getall(), "", "", "", ""]
            if not host:
                continue  # the head
            try:
                yield Proxy(f"{host}:{port}", country=country, scheme=kind.lower() or "http")
            except ValueError as error:
                self.log.warning("a row is no proxy: %s", error)
                self.stats.inc("wrong rows")
        for link in response.css("a[rel=next]::attr(href)").getall():
            yield response.follow(link)
