"""Knowledge: whether the pages of one template, a family of URLs whose pages are made in the same
way, need the browser, as far as it is known."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

STREAK = 8  # pages in a row that needed the browser, until the plain fetch is left out
FIRST_PAUSE, LONGEST_PAUSE = 4, 32  # rendered pages until one is fetched plainly again
PROBES = 5  # pages without items that are rendered in vain before such a page is accepted
FIRST_PROBE, LAST_PROBE = 8, 128  # accepted ones until one is rendered again
LIFE = 14 * 24 * 3_600_000  # milliseconds for which it holds without a new page

SEGMENTS = 6  # of a path that a template names
NAMES = 8  # of a query
MAX_CHARS = 300  # characters

_WORD = re.compile(r"[A-Za-z_]+(?:-[A-Za-z_]+)?")
_WORD_LENGTH = 24  # characters of a segment that is the same in all URLs
_ENDING = re.compile(r"\.[A-Za-z]{1,5}$")


class Lesson(StrEnum):
    """A lesson of one page. The values are as in learn.lua."""

    STATIC = "static"  # the plain page was complete
    BARE = "bare"  # the plain page had no items, and was accepted
    NEEDED = "needed"  # the plain page was incomplete, and the rendered one had more
    VAIN = "vain"  # the rendered page had no more than the incomplete plain one
    BARE_VAIN = "bare vain"  # the same, of a page that had only no items
    DIRECT = "direct"  # rendered without a plain fetch


class Knowledge(NamedTuple):
    """The knowledge of one template of one callback."""

    static: int = 0  # pages that were not rendered
    browser: int = 0  # pages that were rendered
    vain: int = 0  # how many of them had no more than the plain page
    streak: int = 0  # pages in a row that needed the browser
    skipped: int = 0  # pages rendered without a plain fetch since the last plain one
    items: int = 0  # 1: some page had items
    bare: int = 0  # pages without items in a row that were rendered in vain
    accepted: int = 0  # pages without items that were accepted since then
    since: int = 0  # when it began, or changed between static and browser (ms since the epoch)
    used: int = 0  # the time of the last page (ms)

    @property
    def renders(self) -> bool:
        """Whether its pages are rendered without a plain fetch, but for a few."""
        return self.streak >= STREAK

    @property
    def pause(self) -> int:
        """Rendered pages until the next one is fetched plainly."""
        return _doubled(FIRST_PAUSE, self.streak - STREAK, LONGEST_PAUSE)

    @property
    def probe(self) -> int:
        """Accepted pages without items until the next one is rendered."""
        return _doubled(FIRST_PROBE, self.bare - PROBES, LAST_PROBE)

    def at(self, now: int) -> Knowledge:
        """The knowledge that holds now (ms since the epoch)."""
        return UNKNOWN if now - self.used > LIFE else self

    def leaves_out_plain(self) -> bool:
        """Whether the next page is rendered without a plain fetch."""
        return self.renders and self.skipped < self.pause

    def accepts_bare(self) -> bool:
        """Whether a plain page without items is complete."""
        if self.items or self.bare < PROBES:
            return False
        return self.accepted < self.probe


UNKNOWN = Knowledge()


def _doubled(first: int, times: int, most: int) -> int:
    return min(most, first << min(max(0, times), 16))


class URLTemplate(NamedTuple):
    """A family of URLs, and the callback that gets their pages."""

    callback: str
    form: str  # as ``form_of`` returns it

    @property
    def host(self) -> str:
        return self.form.partition("/")[0]


def form_of(url: str) -> str:
    """Returns the form of a normalised URL and all that are built like it: host, path and names of
    the query. The last segment of the path, and segments that look like ids or titles, are
    ``*``."""
    rest, _, query = url.partition("?")
    host, _, path = rest[rest.index("//") + 2 :].partition("/")
    trailing = path.endswith("/")
    segments = path.strip("/").split("/") if path.strip("/") else []
    shown = [part if _is_word(part) else "*" for part in segments[:-1]]
    if segments:
        ending = "" if trailing else _ending_of(segments[-1])
        shown.append(f"*{ending}")
    if len(shown) > SEGMENTS:
        shown = [*shown[:SEGMENTS], "…"]
    found = "/".join([host, *shown]) + ("/" if trailing or not segments else "")
    if query:
        names = sorted({part.partition("=")[0] for part in query.split("&")})
        kept = [name for name in names if _is_word(name)][:NAMES]
        if len(kept) < len(names):
            kept.append("*")
        found += f"?{'&'.join(kept)}"
    return found[:MAX_CHARS]


def _is_word(text: str) -> bool:
    return len(text) <= _WORD_LENGTH and _WORD.fullmatch(text) is not None


def _ending_of(segment: str) -> str:
    found = _ENDING.search(segment)
    return found[0].lower() if found else ""
