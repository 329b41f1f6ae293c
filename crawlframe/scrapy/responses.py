"""Responses of ours and of Scrapy, into each other."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Any

from multidict import CIMultiDict
from scrapy import Request as ScrapyRequest
from scrapy.http import HtmlResponse, TextResponse, XmlResponse
from scrapy.http import Response as ScrapyResponse
from scrapy.http.headers import Headers
from scrapy.responsetypes import responsetypes
from scrapy.selector import Selector

from crawlframe.markup.parsers import MAX_PARSE, html_root, xml_root
from crawlframe.request.request import Request
from crawlframe.response.response import Response

_address = lru_cache(maxsize=1024)(ipaddress.ip_address)
_DECODED = {b"Content-Encoding"}  # no longer true of a body that was decoded


class _Checked(TextResponse):
    """A page that cannot hold up the worker while it is parsed. Raises TooDeep or TooComplex."""

    max_parse = MAX_PARSE

    @property
    def selector(self) -> Any:
        if self._cached_selector is None:
            if isinstance(self, XmlResponse):
                made = Selector(root=xml_root(self.text, self.url), type="xml")
            else:
                made = Selector(root=html_root(self.text, self.url, self.max_parse), type="html")
            made.response = self
            self._cached_selector = made
        return self._cached_selector


class _Html(_Checked, HtmlResponse):
    pass


class _Xml(_Checked, XmlResponse):
    pass


_CHECKED: dict[type, type] = {HtmlResponse: _Html, XmlResponse: _Xml}
for _kind, _checked in _CHECKED.items():
    _checked.__name__ = _checked.__qualname__ = _kind.__name__


def theirs(response: Response, request: ScrapyRequest) -> ScrapyResponse:
    """Scrapy's response to ``request``, whose meta gets the keys that Scrapy sets."""
    headers = Headers()
    for name, value in response.headers.items():
        key = name.encode("latin-1", "replace")
        if key.title() not in _DECODED:
            headers.appendlist(key, value.encode("latin-1", "replace"))
    meta = request.meta
    meta["download_latency"] = response.elapsed
    meta.setdefault("download_slot", response.request.host)
    if response.redirects:
        meta["redirect_times"] = len(response.redirects)
        meta["redirect_urls"] = [*response.redirects]
        if request.url != response.url:
            request = request.replace(url=response.url)
    kind = responsetypes.from_args(headers=headers, url=response.url, body=response.body)
    made: ScrapyResponse = _CHECKED.get(kind, kind)(
        response.url,
        status=response.status,
        headers=headers,
        body=response.body,
        request=request,
        ip_address=_address(response.address) if response.address else None,
    )
    if isinstance(made, _Checked):
        made.max_parse = response.max_parse
    return made


def ours(response: ScrapyResponse, request: Request) -> Response:
    """Our response to ``request``, of one that a middleware of Scrapy returned."""
    headers = CIMultiDict(
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, values in response.headers.items()
        for value in values
    )
    return Response(response.url, response.status, headers, response.body, request)
