"""Templates: the families of URLs whose pages are made in the same way."""

from __future__ import annotations

import re
from typing import NamedTuple

SEGMENTS = 6  # of a path that a template names
NAMES = 8  # of a query
MAX_CHARS = 300  # characters

_WORD = re.compile(r"[A-Za-z_]+(?:-[A-Za-z_]+)?")
_WORD_LENGTH = 24  # characters of a segment that is the same in all URLs
_ENDING = re.compile(r"\.[A-Za-z]{1,5}$")


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
