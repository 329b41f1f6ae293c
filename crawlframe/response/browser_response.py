"""RenderedResponse: a page as a browser has it, after its scripts and actions."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from crawlframe.base.urls import fragment_of
from crawlframe.response.live_page import LivePage, PageHandle, page_of
from crawlframe.response.response import Response

_ROUTE = re.compile(r"^[^#]*#[/!]")


class Captured(msgspec.Struct, frozen=True):
    """The JSON answer to a request that a page sent; ``data`` is decoded."""

    url: str
    status: int
    data: Any


class Rendered(msgspec.Struct):
    """Results of the actions of a request. ``results``: of each ``evaluate``, in order.
    ``picture``: a JPEG for the case that the request fails after all."""

    captured: list[Captured] = []
    results: list[Any] = []
    screenshot: bytes = b""
    pdf: bytes = b""
    picture: bytes = b""


class RenderedResponse(Response):
    """``body`` is the DOM as UTF-8; if the document is no HTML, the body as received.

    ``status`` and ``headers`` come from the document, without its content coding."""

    rendered = Rendered()
    held: PageHandle | None = None  # the page, if the request keeps it

    async def page(self) -> LivePage:
        return page_of(self.url, self.held, rendered=True)

    def _join_all(self, links: list[str]) -> list[str | None]:
        """Joins links; a link to a route of the page, such as ``#/topic/1``, keeps its fragment."""
        new = [link for link in links if link not in self._joined and _ROUTE.search(link)]
        super()._join_all(links)
        for link in new:
            if url := self._joined.get(link):
                url += fragment_of(url + link[link.index("#") :])
                self._joined[link] = self._joined[url] = url
        return [*map(self._joined.get, links)]

    @property
    def html(self) -> str:
        """The DOM as it was when the last action was done."""
        return self.text

    @property
    def captured(self) -> list[Captured]:
        """JSON responses that ``capture_json`` caught, in the order of arrival."""
        return self.rendered.captured

    @property
    def results(self) -> list[Any]:
        """The value of each ``evaluate``, in the order of the actions."""
        return self.rendered.results

    @property
    def screenshot(self) -> bytes:
        """The last picture; b"" without one."""
        return self.rendered.screenshot

    @property
    def pdf(self) -> bytes:
        """The page as a PDF file; b"" without the action ``pdf``."""
        return self.rendered.pdf


def is_held(response: Response | None) -> bool:
    """Whether the request keeps the page of the browser for its callback."""
    return isinstance(response, RenderedResponse) and response.held is not None


def release_page(response: Response) -> None:
    """Closes the page, if the response has one."""
    if isinstance(response, RenderedResponse) and response.held is not None:
        response.held.release()
