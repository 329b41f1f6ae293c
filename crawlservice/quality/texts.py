"""Texts: which letters a text has, and whether its encoding is broken."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from math import log2

MAX_CHARS = 300  # characters of a text

# UTF-8 that was read as Latin-1 or Windows-1252, or bytes that were no text of the encoding.
_BROKEN = re.compile(
    "\ufffd|[\x80-\x9f]|[ÃÂ][\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]|â€|Ð[\x80-\xbf°±²³µ¸º»¼½¾]|ï¿½"
)
_WORD = re.compile(r"[^\W\d_]{2,}")
_SCRIPTS = (
    (0x0250, 37), (0x0370, 38), (0x0400, 39), (0x0530, 40), (0x0590, 41), (0x0600, 42),
    (0x0700, 43), (0x0E00, 44), (0x1100, 45), (0x1200, 43), (0x2000, 36), (0x2E80, 46),
    (0x3040, 47), (0x3100, 46), (0xAC00, 45), (0xD7B0, 36),
)  # fmt: skip
_ACCENTED = {letter: 27 + place for place, letters in enumerate(
    ("äÄ", "öÖ", "üÜ", "ß", "éÉèÈêÊ", "àÀâÂ", "çÇ", "ñÑ", "óíáúÓÍÁÚ")
) for letter in letters}  # fmt: skip


def is_broken(text: str) -> bool:
    """Whether a text has characters that a wrong encoding leaves behind."""
    return _BROKEN.search(text, 0, MAX_CHARS) is not None


def count_letters(text: str, counts: dict[int, int]) -> None:
    """Adds the letters at the beginning of a text to ``counts``: Latin letters singly, others by
    script. Digits, signs and spaces are not counted."""
    for character in text[:MAX_CHARS]:
        place = _place(character)
        if place >= 0:
            counts[place] = counts.get(place, 0) + 1


def words_of(text: str) -> list[str]:
    """Returns the words at the beginning of a text, in lower case."""
    return _WORD.findall(text[:MAX_CHARS].lower())


@lru_cache(4096)
def _place(character: str) -> int:
    if "a" <= character <= "z":
        return ord(character) - 97
    if "A" <= character <= "Z":
        return ord(character) - 65
    if character in _ACCENTED:
        return _ACCENTED[character]
    if not character.isalpha():
        return -1
    code, found = ord(character), 26  # another Latin letter
    for first, place in _SCRIPTS:
        if code >= first:
            found = place
    return found


def shares(counts: Mapping[int, int]) -> dict[int, float]:
    total = sum(counts.values()) or 1
    return {place: count / total for place, count in counts.items()}


def distance(one: Mapping[int, float], other: Mapping[int, float]) -> float:
    """Returns the Jensen-Shannon divergence of two distributions: 0 if they are equal, 1 if they
    have nothing in common."""
    found = 0.0
    for place in one.keys() | other.keys():
        p, q = one.get(place, 0.0), other.get(place, 0.0)
        middle = (p + q) / 2
        found += (p * log2(p / middle) if p else 0.0) + (q * log2(q / middle) if q else 0.0)
    return max(0.0, found / 2)


def overlap(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Returns how much two distributions of words have in common, from 0 to 1."""
    return sum(min(share, other[word]) for word, share in one.items() if word in other)
