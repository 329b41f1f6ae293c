"""Patterns: the regular expressions of recipes, whose search ends after some seconds: one that
backtracks would stop a worker with all its requests."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from crawlframe.errors import SpiderError

SECONDS = 5.0  # for one field, or one link


def find(pattern: str, texts: Iterable[str]) -> Iterator[Any]:
    """The matches in the texts. Raises SpiderError if that takes longer than SECONDS."""
    import regex  # large, and few nodes have recipes

    end = time.monotonic() + SECONDS
    try:
        for text in texts:
            left = max(end - time.monotonic(), 0.001)
            yield from regex.finditer(pattern, text, timeout=left, concurrent=True)
    except TimeoutError:
        raise SpiderError(
            f"the regular expression {pattern!r} took longer than {SECONDS:g} s, because it tries "
            "again and again; do not repeat what is repeated already, as (a+)+ does"
        ) from None
