"""Inputs: what callbacks are called with, made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from mimetypes import guess_type
from os import PathLike
from pathlib import Path
from typing import Any

from multidict import CIMultiDict

from crawlframe.base.exact_json import dumps
from crawlframe.base.urls import normalise
from crawlframe.charsets.encoding import encoding_of
from crawlframe.charsets.labels import encode
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.spider.task_info import Summary

URL = "https://www.example.com/"
_END = datetime(2026, 1, 1, 12, tzinfo=UTC)
_SUMMARY = Summary(
    1, "", {}, "finished", "", _END - timedelta(minutes=1), _END, 0, 0, 0, 0, 0, {}, {}
)


def make_response(
    url: str = URL,
    *,
    html: str | None = None,
    text: str | None = None,
    json: Any = None,
    body: bytes | None = None,
    file: str | PathLike[str] | None = None,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    request: Request | None = None,
    cb_kwargs: Mapping[str, Any] | None = None,
    meta: Mapping[str, Any] | None = None,
) -> Response:
    """Return a response as a server would have sent it.

    One of ``html``, ``text``, ``json``, ``body`` and ``file`` is its body. The first three set the
    Content-Type, and so does the suffix of a ``file``; one in ``headers`` wins, and text is encoded
    in the charset that it or the page names. ``request`` is by default one for ``url``, with
    ``cb_kwargs`` and ``meta``. Raises BadRequest for a URL that is not http(s), TypeError if two
    bodies are given, or data next to ``request``."""
    given = {"html": html, "text": text, "json": json, "body": body, "file": file}
    bodies = [name for name, value in given.items() if value is not None]
    if len(bodies) > 1:
        raise TypeError(f"make_response: give only one of {' and '.join(bodies)}")
    if request is None:
        request = Request(url, cb_kwargs=cb_kwargs, meta=meta)
    elif cb_kwargs is not None or meta is not None:
        raise TypeError("make_response: give cb_kwargs and meta to the request")
    own = CIMultiDict(headers or {})
    if html is not None or text is not None:
        own.setdefault("Content-Type", f"text/{'plain' if html is None else 'html'}; charset=utf-8")
        body = _encoded(html if html is not None else text or "", own["Content-Type"], url)
    elif json is not None:
        own.setdefault("Content-Type", "application/json")
        body = dumps(json)
    elif file is not None:
        body = Path(file).read_bytes()
        if kind := guess_type(file)[0]:
            own.setdefault("Content-Type", kind)
    return Response(normalise(url), status, own, body or b"", request)


def _encoded(text: str, content_type: str, url: str) -> bytes:
    utf8 = text.encode("utf-8", "replace")
    response = Response(url, 200, {"Content-Type": content_type}, utf8, Request.plain(url))
    return encode(text, encoding_of(utf8, content_type, response.kind, url))


def make_summary(**fields: Any) -> Summary:
    """Return a Summary for ``closed``, of a task that has finished: only the fields that matter
    need to be given. Raises TypeError for a field that Summary does not have."""
    if unknown := fields.keys() - Summary._fields:
        raise TypeError(
            f"make_summary: Summary has no field {min(unknown)!r}; it has "
            f"{', '.join(Summary._fields)}"
        )
    return _SUMMARY._replace(arguments={}, stats={}, maxima={})._replace(**fields)
