"""Forms of arguments as a browser reads them, and a spider with arguments of all types."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Annotated, Any, Literal

from msgspec import Meta
from selectolax.lexbor import LexborHTMLParser, LexborNode

from crawlframe.spider.spider import Spider


class Typed(Spider):
    """Arguments of all kinds.

    More of it."""

    name = "typed"

    def start(
        self,
        site: str,
        city: str = "Ulm",
        pages: Annotated[int, Meta(ge=1, le=9)] = 3,
        ratio: float | None = None,
        kind: Literal["new", "used", 3] = "new",
        since: date | None = None,
        strict: bool = False,
        polite: bool = True,
        maybe: bool | None = None,
        tags: list[str] | None = None,
        extra: dict[str, Any] | None = None,
        either: int | str = 0,
    ) -> Any: ...


def fields(page: str) -> dict[str, LexborNode]:
    found = LexborHTMLParser(page).css("#content form [name]")
    return {str(node.attributes["name"]).removeprefix("argument-"): node for node in found}


def filled_in(page: str) -> dict[str, str]:
    """The values that a browser would send if nothing were changed."""

    def values() -> Iterator[tuple[str, str]]:
        for name, node in fields(page).items():
            given = node.attributes
            if node.tag == "select":
                first, *_ = [*node.css("option[selected]"), *node.css("option")]
                yield name, str(first.attributes["value"] or "")
            elif node.tag == "textarea":
                yield name, node.text().strip()
            elif given.get("type") != "checkbox":
                yield name, str(given.get("value") or "")
            elif "checked" in given:
                yield name, "on"

    return dict(values())


def problems(page: str) -> dict[str, str]:
    """The errors shown at fields."""
    found = LexborHTMLParser(page).css("#content form .errors")
    return {
        str(node.attributes["name"]).removeprefix("argument-"): " ".join(group.text().split())
        for group in found
        for node in group.css("[name]")
    }
