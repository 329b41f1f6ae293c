"""Masking: removes possible secrets of a target's address from texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

from crawlframe.base.secret import MASK

MIN_CHARS = 4  # characters of a part of an address that is masked in texts


def scrubbed(text: str, address: str) -> str:
    """The text without the possible secrets of a target's address: an answer, or an error message,
    may repeat them."""
    for part in sorted({*_parts(address)}, key=len, reverse=True):
        text = text.replace(part, MASK)
    return text


def _parts(address: str) -> Iterator[str]:
    """The words of an address, encoded and not; the scheme is none."""
    rest = address.partition("://")[2]
    for word in (rest, *re.split(r"[/?&=@:#,]", rest)):
        for form in (word, unquote(word)):
            if len(form) >= MIN_CHARS:
                yield form
