"""PathRule: which URLs a path in a file means, as in Allow and Disallow (RFC 9309, 2.2.2)."""

from __future__ import annotations

import re
from functools import lru_cache
from string import ascii_letters, digits, punctuation
from urllib.parse import quote

from crawlframe.base.urls import target_of

_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset(ascii_letters + digits + "-._~")


class PathRule:
    """A path, with ``*`` for any text, and a ``$`` at the end for the end."""

    def __init__(self, path: str) -> None:
        path = _plain(path)
        self.length = len(path)
        self._whole = path.endswith("$")
        self._first, *self._others = path.removesuffix("$").split("*")

    def fits(self, url: str) -> bool:
        """Whether the target of a normalised URL starts like it. The first place of each text is
        always good enough, so the time is linear; the last text of a whole path ends it."""
        path = _target(url)
        if not path.startswith(self._first):
            return False
        if not self._others:
            return not self._whole or path == self._first
        *others, last = self._others if self._whole else [*self._others, ""]
        at = len(self._first)
        for part in others:
            at = path.find(part, at)
            if at < 0:
                return False
            at += len(part)
        return len(path) - at >= len(last) and path.endswith(last)


@lru_cache(maxsize=64)  # a file has many rules
def _target(url: str) -> str:
    return _plain(target_of(url))


def _plain(path: str) -> str:
    """A path in ASCII, without escapes that mean nothing."""
    return _ESCAPE.sub(_escape, quote(path, safe=punctuation))


def _escape(found: re.Match[str]) -> str:
    character = chr(int(found[1], 16))
    return character if character in _UNRESERVED else found[0].upper()
