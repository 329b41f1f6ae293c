"""Offline: the client for fetches in callbacks of kept pages, which refuses each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from crawlframe.errors import FetchError
from crawlframe.request.request import Request
from crawlframe.response.response import Response


class WithoutNetwork(FetchError):
    """The callback of a kept page fetches another page."""

    reason = "without_network"
    retryable = False

    def __init__(self, url: str) -> None:
        super().__init__(f"{url} is not fetched: kept pages are parsed without the network")


class Offline:
    """Replaces InlineFetch in a task whose kept pages are parsed."""

    offline: ClassVar = True

    async def fetch(self, request: Request) -> Response:
        """Raises WithoutNetwork."""
        raise WithoutNetwork(request.url)

    def keep_cookies(self, request: Request, cookies: Mapping[str, str]) -> None:
        """Does nothing: no request is sent that could have them."""
