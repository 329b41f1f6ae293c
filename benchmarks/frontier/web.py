"""Web: URLs by number, as a crawl meets them, and the requests made of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from crawlframe.request.request import Admission, Request, make_rid

TASK = 1
DEPTH = 3
CALLBACK = "parse_article"
URL = "https://{host}/catalogue/section-{section:03d}/article-{number:010d}/its-own-name.html"
HOST = "www.shop{number:07d}.example"  # with it a URL has 90 characters


class Web(NamedTuple):
    """URLs that are spread evenly over ``hosts`` hosts, at most ten million of them."""

    hosts: int

    def host(self, number: int) -> str:
        return HOST.format(number=number % self.hosts)

    def url(self, number: int) -> str:
        return URL.format(host=self.host(number), section=number % 1000, number=number)

    def admission(self, number: int) -> Admission:
        """The request of a URL, as a callback's becomes one."""
        request = Request(self.url(number), CALLBACK, depth=DEPTH)
        rid = make_rid(TASK, request.fingerprint())
        return Admission(rid, request.rank(), request.host, 0, request.encode())

    def admissions(self, numbers: Iterable[int]) -> list[Admission]:
        return [self.admission(number) for number in numbers]
