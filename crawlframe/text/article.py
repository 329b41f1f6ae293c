"""Article: the main text of a page, without its surroundings; its authors and its date."""

from __future__ import annotations

import asyncio
import datetime
import re
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextvars import ContextVar
from email.utils import parsedate_to_datetime
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple, Self

from crawlframe.errors import ConfigError

MIN_DETECTED = 200  # characters of a text whose language can be detected

_HTML_TAG = re.compile(rb"<html\b([^>]*+)", re.I)
_LANG = re.compile(rb"(?:^|\s)(?:xml:)?lang\s*+=\s*+[\"']?+\s*+([a-z]{2,3})(?![a-z])", re.I)
_HEAD = 64 << 10  # bytes that are searched for the tag

# Where extractions run, so that the event loop continues. In a worker: the threads of its
# callbacks, where computing callbacks take turns.
OFFLOAD: ContextVar[Callable[[Callable[[], Any]], Awaitable[Any]]] = ContextVar(
    "offload", default=asyncio.to_thread
)


class Extracted(NamedTuple):
    """``text`` and ``markdown`` are "" if the page has no article."""

    text: str = ""
    markdown: str = ""
    title: str | None = None
    author: str | None = None
    date: datetime.date | None = None


class Article:
    """The article of a page, extracted on first use, and once; empty if the page is not HTML.

    A plain callback that reads ``response.article`` runs in a thread. An async callback awaits it,
    and then reads its attributes: ``article = await response.article``. Raises TooDeep and
    TooComplex as ``Response.soup`` does, and ConfigError without the extra ``crawlframe[text]``."""

    def __init__(self, page: Any) -> None:
        """``page``: a Response."""
        self._page = page
        self.held_loop = False  # whether the event loop of its thread waited for the extraction

    def __await__(self) -> Generator[Any, None, Self]:
        yield from self._load().__await__()
        return self

    async def _load(self) -> None:
        await OFFLOAD.get()(lambda: (self._extracted, self.language))

    @property
    def text(self) -> str:
        """The main text without navigation, advertisements and comments: a line for each
        paragraph, heading and list item. "" if the page has none."""
        return self._extracted.text

    @property
    def markdown(self) -> str:
        """The same text as Markdown, with headings, emphasis, lists, tables and links."""
        return self._extracted.markdown

    @property
    def title(self) -> str | None:
        """The title in the page's metadata or its heading."""
        return self._extracted.title

    @property
    def author(self) -> str | None:
        """The names of its authors, separated by "; "."""
        return self._extracted.author

    @property
    def date(self) -> datetime.date | None:
        """The day of publication."""
        return self._extracted.date

    @cached_property
    def language(self) -> str | None:
        """The ISO 639 code of its language, such as "en": as the page declares it; otherwise as it
        is detected, if the text has at least 200 characters."""
        if self._page.kind != "html":
            return None
        declared = declared_language(self._page._html, self._page.headers)
        if declared is None and len(self.text) >= MIN_DETECTED:
            found: str | None = part("fast").language_of(self.text)
            return found
        return declared

    @cached_property
    def fast_text(self) -> str:
        """The main text by a method that takes a tenth of the time and is coarser. Made for hashes
        that find pages that are nearly the same."""
        if self._page.kind != "html":
            return ""
        _ = self._page.tree  # raises if the parser, which is the same, would take too long
        found: str = part("fast").main_text(self._page._html)
        return found

    @cached_property
    def _extracted(self) -> Extracted:
        if self._page.kind != "html":
            return Extracted()
        self._page._check("article")
        if asyncio._get_running_loop() is not None:
            self.held_loop = True
        found: Extracted = part("extraction").extract(
            self._page._html_text, self._page.url, self._latest
        )
        return found

    @property
    def _latest(self) -> datetime.date:
        """The day of the response. A later date on the page is not its date of publication."""
        try:
            sent = parsedate_to_datetime(self._page.headers["Date"])
            return sent.astimezone(datetime.UTC).date()
        except (KeyError, ValueError, OverflowError):
            return datetime.datetime.now(datetime.UTC).date()


def declared_language(html: bytes, headers: Mapping[str, str]) -> str | None:
    """The code in ``<html lang>``, or else in Content-Language, in lower case and without a
    region."""
    tag = _HTML_TAG.search(html, 0, _HEAD)
    if tag and (given := _LANG.search(tag[1])):
        return given[1].decode().lower()
    code = re.match(r"\s*([a-z]{2,3})(?![a-z,])", headers.get("Content-Language", ""), re.I)
    return code[1].lower() if code else None


def part(name: str) -> Any:
    """A module that needs the extra. Raises ConfigError if that is not installed."""
    try:
        return import_module(f"crawlframe.text.{name}")
    except ImportError as error:
        if (error.name or "").startswith("crawlframe"):
            raise
        raise ConfigError(
            f"response.article needs the extra text ({error}): pip install 'crawlframe[text]'"
        ) from None
