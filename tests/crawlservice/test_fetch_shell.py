"""One page as a node would fetch it, through the middlewares of a spider."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from crawlframe import CallNext, Request, Response, Spider
from crawlframe.conf import Settings
from crawlframe.errors import CrawlframeError
from crawlservice.cli.fetch_shell import PageFetcher


class Answering:
    async def fetch(self, request: Request, call_next: CallNext) -> Response:
        return Response(request.url, 200, {}, b"made here", request)


class Broken:
    async def fetch(self, request: Request, call_next: CallNext) -> Response:
        raise KeyError("token")


def fetch(middleware: Any) -> Response:
    class Shop(Spider):
        name = "shop"
        middlewares: ClassVar[Any] = [middleware]

    return PageFetcher(Settings(), Shop()).fetch("http://shop.example/")


def test_it_goes_through_the_middlewares_of_the_spider() -> None:
    assert fetch(Answering).body == b"made here"


def test_the_middleware_that_failed_is_named() -> None:
    with pytest.raises(CrawlframeError, match="middleware Broken: KeyError: 'token'"):
        fetch(Broken)
