"""Texts of real pages, and what is made of them: nearly the same ones, and pages of templates."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from crawlframe.near.text import visible_text, words_of

MOST = 1 << 20  # bytes of a page
PART = 300  # words of a part of a page
PARAGRAPH = 60  # words of what is moved
LONG = 4_000  # words of a text that is compared word by word

Words = list[bytes]


class Page(NamedTuple):
    name: str
    words: Words


def pages_of(directories: Iterable[Path]) -> list[bytes]:
    """The HTML pages below the directories."""
    paths = sorted(path for top in directories for path in top.rglob("*.html*") if path.is_file())
    return [path.read_bytes() for path in paths if path.stat().st_size <= MOST]


def texts_of(pages: Iterable[bytes], least: int) -> list[Page]:
    """Those with so many words; of pages with the same text, one."""
    found: dict[tuple[bytes, ...], str] = {}
    for number, page in enumerate(pages):
        words = words_of(visible_text(page))
        if len(words) >= least:
            found.setdefault(tuple(words), str(number))
    return [Page(name, [*words]) for words, name in found.items()]


class Changes:
    """Changes words at random; new ones are those of other pages."""

    def __init__(self, chance: Random, vocabulary: Words) -> None:
        self._chance = chance
        self._vocabulary = vocabulary

    def of(self, words: Sequence[bytes], share: float, *, moved: bool = False) -> Words:
        """A text of which this share of the words were replaced, preceded by another one, or
        removed, a third each. ``moved``: its paragraphs are in another order, too."""
        chance, found = self._chance, [*words]
        places = chance.sample(range(len(words)), round(len(words) * share))
        for place in sorted(places, reverse=True):
            kind, new = chance.randrange(3), chance.choice(self._vocabulary)
            if kind == 0:
                found[place] = new
            elif kind == 1:
                found.insert(place, new)
            else:
                del found[place]
        if moved:
            parts = [found[at : at + PARAGRAPH] for at in range(0, len(found), PARAGRAPH)]
            chance.shuffle(parts)
            found = [word for part in parts for word in part]
        return found


def sites(
    texts: Iterable[Page], template: int, count: int, size: int, chance: Random
) -> list[Words]:
    """Pages of so many sites: each has a template of so many words around a part of some page,
    which no other page has. Raises ValueError if the texts are too few."""
    parts = [
        words[at : at + PART]
        for _, words in texts
        for at in range(0, min(len(words), 40 * PART) - PART, PART)
    ]
    needed = count * (size + -(-template // PART))
    if len(parts) < needed:
        raise ValueError(
            f"the pages have {len(parts):,} parts of {PART} words, and {needed:,} are needed; name "
            "further directories"
        )
    chance.shuffle(parts)
    found = []
    for _ in range(count):
        common: Words = []
        while len(common) < template:
            common += parts.pop()
        top, end = common[: template // 2], common[template // 2 : template]
        found += [top + parts.pop() + end for _ in range(size)]
    return found


def changed_share(one: Words, other: Words) -> float | None:
    """The share of words that are not in a common subsequence; None for long texts."""
    if max(len(one), len(other)) > LONG:
        return None
    return 1 - difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()
