"""Mutant: one file of the protocol with one change."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Mutant(NamedTuple):
    file: str  # path in the checkout
    number: int  # of the line
    line: str  # its text, without its surroundings
    what: str  # was done to it
    part: str  # verb, or function: only a test that runs it can notice
    source: str  # of the whole file

    @property
    def name(self) -> str:
        """The name of this mutant in this version of the file."""
        return hashlib.blake2b(f"{self.file}\n{self.source}".encode(), digest_size=12).hexdigest()

    def __str__(self) -> str:
        return f"{self.file}:{self.number} {self.what}: {self.line}"


class Change(NamedTuple):
    """A change of a text: the part between ``start`` and ``end`` becomes ``text``."""

    start: int
    end: int
    text: str
    what: str

    def at(self, offset: int) -> Change:
        return self._replace(start=self.start + offset, end=self.end + offset)


def mutants(file: str, source: str, changes: Iterable[tuple[str, Change]]) -> Iterator[Mutant]:
    """Mutants, one for each (part, change) that gives a text different from those before."""
    lines, made = source.split("\n"), {source}
    times: Counter[tuple[int, str]] = Counter()
    for part, change in sorted(changes, key=lambda one: one[1].start):
        changed = source[: change.start] + change.text + source[change.end :]
        if changed in made:
            continue
        made.add(changed)
        number = source.count("\n", 0, change.start) + 1
        times[number, change.what] += 1
        nth = times[number, change.what]
        what = change.what if nth == 1 else f"{change.what} ({nth})"
        yield Mutant(file, number, lines[number - 1].strip(), what, part, changed)
