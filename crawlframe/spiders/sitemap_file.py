"""SitemapFile: the entries of a sitemap or a sitemap index (https://www.sitemaps.org/protocol.html),
read in bounded memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, NamedTuple

from crawlframe.errors import SpiderError
from crawlframe.response.response import Response
from crawlframe.spiders.body_text import BodyText
from crawlframe.spiders.xml_elements import XmlElements

MAX_URLS = 50_000  # of one file, by the protocol
MAX_BYTES = 50 << 20  # of one file, unpacked, by the protocol
MAX_LENGTH = 16 << 20  # characters of the URLs that are read at a time
MAX_LOCATION = 1 << 16  # characters; no server takes longer ones

# A date and time by https://www.w3.org/TR/NOTE-datetime, or an age.
_AGE = re.compile(r"(\d{1,6})([mhdw])")
_DATE = r"\d{4}(?:-\d\d(?:-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d))?)?)?"
SINCE = rf"^(?:{_DATE}|{_AGE.pattern})?$"
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_ALTERNATE = "{http://www.w3.org/1999/xhtml}link"


class Entry(NamedTuple):
    """An entry of a sitemap. ``loc`` is its URL as written; ``lastmod`` as written, "" if there is
    none; ``alternates`` are the URLs of the same page in other languages. ``is_sitemap``: it is
    another sitemap, not a page."""

    loc: str
    lastmod: str = ""
    alternates: tuple[str, ...] = ()
    is_sitemap: bool = False


class SitemapFile:
    """The entries of a sitemap in XML, or in text with one URL in each line; packed with gzip or
    not. ``problem``: after the last entry, the damage of the file, "" if none."""

    def __init__(self, response: Response) -> None:
        self._url = response.url
        self._body = BodyText(response)
        self._xml: XmlElements | None = None
        self._left = self._rows()
        self._unread = ""

    def skip(self, number: int) -> Iterator[None]:
        """Passes over that many entries, one with each step, at a third of the cost."""
        for _ in zip(range(number), self._left, strict=False):
            yield None

    def __iter__(self) -> Iterator[Entry]:
        """Yields the remaining entries. Raises SpiderError if the file is no sitemap."""
        for row in self._left:
            entry = Entry(row) if isinstance(row, str) else _entry(row)
            if entry is not None and "\ufffd" in entry.loc:  # not as it was written
                self._unread = f"a URL has characters that cannot be read: {entry.loc[:100]}"
            elif entry is not None:
                yield entry

    @property
    def problem(self) -> str:
        xml = self._xml.problem if self._xml is not None else ""
        return self._body.problem or xml or self._unread

    def _rows(self) -> Iterator[Any]:
        """Elements of XML, or lines of text."""
        pieces = iter(self._body)
        first = next((start for piece in pieces if (start := piece.lstrip())), "")
        text = chain([first], pieces)
        rows: Iterable[Any]
        if first.startswith("<"):
            rows = self._xml = XmlElements(text, ("{*}url", "{*}sitemap"))
        else:
            rows = (line for line in _lines(text) if line.startswith(("http://", "https://")))
        empty = True
        for row in rows:
            empty = False
            yield row
        root = self._xml.root if self._xml is not None else ""
        if empty and root not in ("urlset", "sitemapindex"):
            what = f"its outermost element is {root!r}" if root else self.problem
            what = what or "it has neither XML nor URLs"
            raise SpiderError(f"{self._url} is no sitemap: {what}")


def _entry(element: Any) -> Entry | None:
    """The entry of an element; None if it has no location."""
    loc = lastmod = ""
    alternates = []
    for child in element:
        name = child.tag if isinstance(child.tag, str) else ""  # of a comment it is a function
        if name == _ALTERNATE:
            if child.get("rel") == "alternate" and (href := child.get("href", "").strip()):
                alternates.append(href)
        elif name.endswith("}loc") or name == "loc":
            loc = loc or _text(child)
        elif name.endswith("}lastmod") or name == "lastmod":
            lastmod = _text(child)
    if not loc or len(loc) > MAX_LOCATION:
        return None
    return Entry(loc, lastmod, tuple(alternates), element.tag.endswith("sitemap"))


def _text(element: Any) -> str:
    """The text of an element that contains nothing else."""
    return "" if len(element) else (element.text or "").strip()


def _lines(text: Iterable[str]) -> Iterator[str]:
    """The lines, except lines that are too long for a location."""
    rest, too_long = "", False
    for piece in text:
        *lines, rest = (rest + piece).split("\n")
        if lines and too_long:
            del lines[0]
            too_long = False
        yield from map(str.strip, lines)
        if len(rest) > MAX_LOCATION:
            rest, too_long = "", True
    if not too_long:
        yield rest.strip()


def since_when(text: str, now: datetime) -> datetime | None:
    """Return the instant that ``since`` means: a W3C date or time, in UTC if it has no offset, or
    an age such as ``36h`` or ``7d`` before ``now``; None for "". Raises SpiderError."""
    if not text:
        return None
    if age := _AGE.fullmatch(text):
        return now - timedelta(**{_UNITS[age[2]]: int(age[1])})
    try:
        return _instants(text)[0]
    except ValueError:
        raise SpiderError(
            f"since: {text!r} is neither a date such as 2026-11-20 or 2026-11-20T08:00Z, nor an "
            "age such as 36h or 7d"
        ) from None


def changed_since(lastmod: str, instant: datetime) -> bool:
    """Whether a page may have changed since then, by its ``lastmod``: also if that cannot be read,
    and if it is a day that contains the instant."""
    try:
        return _instants(lastmod)[1] >= instant
    except ValueError:
        return True


def moment_of(lastmod: str) -> datetime | None:
    """The first instant that a ``lastmod`` can mean; None if it cannot be read."""
    try:
        return _instants(lastmod)[0]
    except ValueError:
        return None


def _instants(text: str) -> tuple[datetime, datetime]:
    """The first and the last instant that a W3C date or time can mean. Raises ValueError."""
    full = text + {4: "-01-01", 7: "-01"}.get(len(text), "")
    first = datetime.fromisoformat(full)
    first = first.replace(tzinfo=first.tzinfo or UTC)
    days = {4: 366, 7: 31, 10: 1}.get(len(text), 0)
    try:
        return first, first + timedelta(days=days)
    except OverflowError:
        raise ValueError(text) from None
