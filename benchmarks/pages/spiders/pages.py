"""The job for Crawlframe: title and links of each page, with the fast tree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crawlframe import Request, Response, Spider


class Pages(Spider):
    """``seeds``: a file of URLs. ``within``: "yes" to follow links within each host."""

    name = "pages"
    within: str = ""
    settings = {"concurrency": 8, "delay": 0, "min_delay": 0}

    def start(self, seeds: str) -> Iterator[Request]:
        for url in Path(seeds).read_text().split():
            yield Request(url)

    def parse(self, response: Response) -> Iterator[Any]:
        title: Any = response.tree.css_first("title")
        links = response.links()
        yield {"url": response.url, "title": title and title.text(), "links": len(links)}
        if self.within:
            own = response.url.split("/p/")[0] + "/p/"
            yield from response.follow_all([link for link in links if link.startswith(own)])
