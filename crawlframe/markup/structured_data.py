"""PageData: a page's content for machines: JSON-LD, microdata, OpenGraph."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from crawlframe.markup import microdata

JSON_LD = "application/ld+json"
# Prefixes of the names that ogp.me defines.
_OPEN_GRAPH = ("og:", "article:", "book:", "fb:", "music:", "product:", "profile:", "video:")
# <!-- ... -->, //<![CDATA[ ... //]]>, /* <![CDATA[ */ ... /* ]]> */
_OPENING = re.compile(r"\s*+(?:<!--|(?://|/\*)?+\s*+<!\[CDATA\[(?:\s*+\*/)?)")


class PageData:
    """The structured data of a page, each part read when it is used; empty if the page is not HTML.

    All of it is made of dicts, lists, text and numbers, so it can be yielded. Raises TooDeep and
    TooComplex as ``Response.tree`` does."""

    def __init__(self, page: Any) -> None:
        """``page``: a Response."""
        self._page = page
        self.errors: list[str] = []  # blocks of JSON-LD that could not be read, when it was used

    @cached_property
    def json_ld(self) -> list[dict[str, Any]]:
        """The objects of all JSON-LD blocks, as the page has them. A block that is not JSON is left
        out and named in ``errors``."""
        found: list[dict[str, Any]] = []
        for script in self._elements("script[type]"):
            kind = (script.attributes["type"] or "").partition(";")[0]
            if kind.strip().lower() == JSON_LD:
                found += self._objects(script.text())
        return found

    @cached_property
    def microdata(self) -> list[dict[str, Any]]:
        """The items of the page's microdata, in the form of JSON-LD: ``@type``, ``@context`` and
        ``@id`` from itemtype and itemid, then the properties; a list if there are several values.
        Addresses are absolute."""
        if self._page.kind != "html":
            return []
        return microdata.items_of(self._page.tree, self._page.base_url, self._page.url)

    @cached_property
    def opengraph(self) -> dict[str, str | list[str]]:
        """The contents of ``<meta property="og:...">`` and its relatives, by name; a list if a name
        is given several times."""
        found: dict[str, str | list[str]] = {}
        for meta in self._elements("meta[content]"):
            given = meta.attributes
            names = (given.get("property") or given.get("name") or "").lower().split()
            for name in names:
                if name.startswith(_OPEN_GRAPH):
                    microdata.add(found, name, given["content"] or "")
        return found

    def find(self, kind: str) -> list[dict[str, Any]]:
        """Return the objects of a type, such as "Product", wherever they are in the JSON-LD (in a
        ``@graph``, or as values of others), then the objects of the microdata."""
        return [
            one
            for one in (*_objects_in(self.json_ld), *_objects_in(self.microdata))
            if kind in _types_of(one)
        ]

    def _elements(self, css: str) -> list[Any]:
        found: list[Any] = self._page.tree.css(css) if self._page.kind == "html" else []
        return found

    def _objects(self, text: str) -> list[dict[str, Any]]:
        try:
            decoded = decoded_block(text)
        except (ValueError, RecursionError) as error:
            self.errors.append(f"{error}; it starts {text[:60].strip()!r}")
            return []
        every = decoded if isinstance(decoded, list) else [decoded]
        found = [one for one in every if isinstance(one, dict)]
        if len(found) < len(every):
            self.errors.append(f"it is no object; it starts {text[:60].strip()!r}")
        return found


def decoded_block(text: str) -> Any:
    """The value of a block. Line ends in texts are accepted, and a comment around it; both are
    common. Raises ValueError and RecursionError."""
    inner = text
    if opening := _OPENING.match(text):
        inner = text[opening.end() :]
    inner = inner.rstrip("; \t\r\n").removesuffix("*/").rstrip()
    for closing in ("-->", "]]>", "/*", "//"):
        inner = inner.removesuffix(closing).rstrip()
    try:
        return json.loads(inner, strict=False)
    except ValueError:
        if "&quot;" not in inner:
            raise
    return json.loads(html.unescape(inner), strict=False)


def _objects_in(data: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """All dicts in a value, in document order."""
    left: list[Any] = [*reversed(data)]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            yield one
            left += reversed(one.values())
        elif isinstance(one, list):
            left += reversed(one)


def _types_of(one: dict[str, Any]) -> set[str]:
    """Types of an object, in full and without the part before the name."""
    given = one.get("@type")
    every = given if isinstance(given, list) else [given]
    types = {kind for kind in every if isinstance(kind, str)}
    return types | {re.split(r"[/#:]", kind)[-1] for kind in types}
