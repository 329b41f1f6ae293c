"""Inline: the client for a callback's fetches while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol

from crawlframe.request.request import Request
from crawlframe.response.response import Response


class Inline(Protocol):
    """Fetches for a callback that awaits the response. ``offline``: it refuses to."""

    offline: ClassVar[bool]

    async def fetch(self, request: Request) -> Response:
        """Returns the response, whatever its status. Raises FetchError."""

    def keep_cookies(self, request: Request, cookies: Mapping[str, str]) -> None:
        """Puts cookies into the jar of ``request``, as if its host had set them."""
