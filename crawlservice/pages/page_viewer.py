"""Shown: kept pages as people see them. Their content comes from any site: nothing of it may run,
reach out, or look like a page of ours."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from django.http import HttpResponse

from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlservice.files.download import name_of
from crawlservice.models import KeptPage
from crawlservice.pages.bodies import read

SOURCE = 200_000  # characters of a source that are shown
MAX_RENDERED = 2_000_000  # characters of a page that is shown as it looks

# No scripts, forms, frames, plug-ins, downloads or navigation, and no request to anywhere: styles
# and pictures only as they are in the page itself.
POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'self'"
)
# Elements for which a browser connects whatever the policy says, such as <link rel=preconnect>.
# Renamed, they mean nothing, wherever a parser finds them.
_RENAMED = re.compile(
    r"<(?=(?:link|meta|base|iframe|frame|frameset|object|embed|applet|portal|fencedframe|"
    r"animate\w*|set)(?:[\s/>\0]|$))",  # the last ones set attributes of links in SVG
    re.I,
)
# Attributes that lead a click elsewhere: a browser connects to a link that is pressed before any
# policy is asked.
_LEADING = re.compile(r"(?<![\w-])(?=(?:href|action|formaction|ping)\s*=)", re.I)


@dataclass(frozen=True)
class ShownPage:
    """A kept page with its body. ``kind``: as ``Response.kind``."""

    page: KeptPage
    body: bytes

    @classmethod
    def of(cls, page: KeptPage) -> ShownPage:
        """Raises PageDamaged, StoreError and django.db.Error."""
        return cls(page, read([page.body_id])[page.body_id])

    @cached_property
    def response(self) -> Response:
        """The page as it was received."""
        headers = [(name, value) for name, value in self.page.headers.get("received", ())]
        request = Request.plain(self.page.url)
        return Response(self.page.url, self.page.status, headers, self.body, request)

    @property
    def media_type(self) -> str:
        given = self.response.headers.get("Content-Type", "")
        return given.partition(";")[0].strip().lower()

    @property
    def kind(self) -> str:
        return self.response.kind

    @property
    def text(self) -> str:
        """The body as text."""
        return self.response.text

    @cached_property
    def source(self) -> str:
        """The shown part of a text; "" for binary bodies."""
        return "" if self.kind == "binary" else self.text[:SOURCE].replace("\0", "\ufffd")

    @property
    def is_cut(self) -> bool:
        return bool(self.source) and len(self.text) > SOURCE


def harmless(text: str) -> str:
    """HTML without the elements and attributes that act beyond the policy."""
    return _LEADING.sub("x-", _RENAMED.sub("<x-", text))


def rendered(shown: ShownPage) -> HttpResponse:
    """The page for a frame: see POLICY. Always UTF-8, so that the browser reads the same text."""
    text = harmless(shown.text[:MAX_RENDERED]) if shown.kind == "html" else ""
    response = HttpResponse(text, content_type="text/html; charset=utf-8")
    _secure(response)
    response.headers["X-Frame-Options"] = "SAMEORIGIN"
    return response


def attachment(shown: ShownPage) -> HttpResponse:
    """The body as a file to be saved."""
    response = HttpResponse(shown.body, content_type="application/octet-stream")
    _secure(response)
    name = name_of(shown.page.url, shown.media_type or "text/html", shown.page.rid.hex)
    response.headers["Content-Disposition"] = f'attachment; filename="{_ascii(name)}"'
    return response


def _ascii(name: str) -> str:
    return name.encode("ascii", "replace").decode().replace('"', "_").replace("?", "_")


def _secure(response: HttpResponse) -> None:
    response.headers["Content-Security-Policy"] = POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["X-DNS-Prefetch-Control"] = "off"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["Cache-Control"] = "private, no-store"
