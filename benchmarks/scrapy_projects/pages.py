"""Pages: what a local site returns for the URLs of one spider, read from crawls.toml."""

from __future__ import annotations

import json
import mimetypes
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Page:
    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


NOWHERE = Page(b"<html><body>not here</body></html>", 404, {"Content-Type": "text/html"})
NO_RULES = Page(b"User-agent: *\nAllow: /\n", 200, {"Content-Type": "text/plain"})


class Pages:
    """``given``: pages by URL, or by a pattern of URLs with ``*``; a method other than GET goes
    before, as in ``POST http://...``. A page is a text; ``{file = "..."}`` in the ``checkout`` of
    the project, of which several match in turn; ``{json = ...}``; any of them may have a
    ``status`` and ``headers``."""

    def __init__(self, given: dict[str, Any], checkout: Path) -> None:
        self._exact: dict[str, Page] = {}
        self._patterns: list[tuple[str, Page]] = []
        for name, page in given.items():
            made = _page(page, name, checkout)
            key = name if " " in name else f"GET {name}"
            if "*" in key:
                self._patterns.append((key.replace("[", "[[]").replace("?", "[?]"), made))
            else:
                self._exact[key] = made

    def at(self, method: str, url: str) -> Page:
        """The page for a request; the first pattern that matches counts."""
        asked = f"{method} {url}"
        if asked in self._exact:
            return self._exact[asked]
        for pattern, page in self._patterns:
            if fnmatchcase(asked, pattern):
                return page
        return NO_RULES if url.endswith("/robots.txt") else NOWHERE


def _page(given: Any, name: str, checkout: Path) -> Page:
    if isinstance(given, str):
        given = {"text": given}
    path = name.partition("?")[0]
    kind = mimetypes.guess_type(path)[0] or "text/html"
    if "file" in given:
        body = (checkout / given["file"]).read_bytes()
        kind = mimetypes.guess_type(given["file"])[0] or kind
    elif "json" in given:
        body, kind = json.dumps(given["json"]).encode(), "application/json"
    else:
        text = str(given.get("text", ""))
        body = text.encode()
        if text.lstrip().startswith(("<?xml", "<urlset", "<sitemapindex")):
            kind = "text/xml"
    if kind.startswith("text/"):
        kind += "; charset=utf-8"
    headers = {"Content-Type": kind, **given.get("headers", {})}
    return Page(body, int(given.get("status", 200)), headers)
