"""Content: counts and sketches of the items and pages of a run, a few kilobytes for each field.
Contents can be merged."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from crawlservice.quality.sketch import KEPT_UNIQUE, Distinct, Frequent, LogHistogram, hash_of
from crawlservice.quality.texts import count_letters, is_broken, words_of
from crawlservice.tasks.results.column_types import type_of

FIELDS = 60  # of a run; further ones are not looked at
NAMES = 40  # statuses, sections and versions, each
NAME = 60  # characters of a value or a section
READ = 300  # texts of a field whose letters and words are counted in a window
WORDS = 48  # most frequent words of a field
OTHER = "…"


class FieldContent(msgspec.Struct, array_like=True):
    """One field: the number of items with it, and sketches of its values. A value counts as filled
    if it is neither null nor an empty text, list or object."""

    present: int = 0
    filled: int = 0
    kinds: dict[str, int] = {}
    numbers: LogHistogram = msgspec.field(default_factory=LogHistogram)
    lengths: LogHistogram = msgspec.field(default_factory=LogHistogram)
    broken: int = 0
    letters: dict[int, int] = {}
    distinct: Distinct = msgspec.field(default_factory=Distinct)
    frequent: Frequent = msgspec.field(default_factory=Frequent)
    words: Frequent = msgspec.field(default_factory=lambda: Frequent(kept=WORDS))
    tokens: int = 0  # words that were counted

    def add(self, value: Any) -> None:
        self.present += 1
        if value is None or value in ("", [], {}):
            return
        self.filled += 1
        kind = _kind(value)
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        if kind == "number":
            self.numbers.add(value)
            text = repr(value)
        elif kind == "text":
            text = value
            self.lengths.add(len(text))
            self.broken += is_broken(text)
            if self.kinds[kind] <= READ:
                count_letters(text, self.letters)
                for word in words_of(text):
                    self.words.add(word)
                    self.tokens += 1
        elif kind == "boolean":
            text = str(value)
        else:
            text = msgspec.json.encode(value, order="sorted").decode()
            self.lengths.add(len(value))
        self.distinct.add(hash_of(text))
        self.frequent.add(text[:NAME])

    def merge(self, other: FieldContent) -> None:
        self.present += other.present
        self.filled += other.filled
        self.broken += other.broken
        self.tokens += other.tokens
        _add(self.kinds, other.kinds)
        _add(self.letters, other.letters)
        self.numbers.merge(other.numbers)
        self.lengths.merge(other.lengths)
        self.distinct.merge(other.distinct)
        self.frequent.merge(other.frequent)
        self.words.merge(other.words)


class Content(msgspec.Struct, array_like=True):
    """Items and pages that were read. ``statuses`` and ``sections``: pages by HTTP status, and by
    host and first part of the path; ``errors``: pages that ended in error."""

    items: int = 0
    pages: int = 0
    errors: int = 0
    yielded: int = 0  # items of these pages
    statuses: dict[str, int] = {}
    sections: dict[str, int] = {}
    versions: dict[str, int] = {}  # of items and pages
    fields: dict[str, FieldContent] = {}
    squares: int = 0  # of the numbers of items of these pages

    def add_item(self, data: Any, version: str = "", unique: Collection[str] = ()) -> None:
        self.items += 1
        _count(self.versions, version)
        if not isinstance(data, Mapping):
            data = {"": data}
        for name, value in data.items():
            field = self.fields.get(name)
            if field is None:
                if len(self.fields) >= FIELDS and name not in unique:
                    continue
                field = self.fields[name] = FieldContent()
                if name in unique:
                    field.distinct.kept = KEPT_UNIQUE
            field.add(value)

    def add_page(
        self, url: str, status: int | None, items: int, *, failed: bool, version: str = ""
    ) -> None:
        self.pages += 1
        self.errors += failed
        self.yielded += items
        self.squares += items * items
        _count(self.versions, version)
        _count(self.statuses, str(status) if status else "none")
        _count(self.sections, section_of(url))

    def merge(self, other: Content) -> None:
        self.items += other.items
        self.pages += other.pages
        self.errors += other.errors
        self.yielded += other.yielded
        self.squares += other.squares
        for mine, theirs in (
            (self.statuses, other.statuses),
            (self.sections, other.sections),
            (self.versions, other.versions),
        ):
            for name, count in theirs.items():
                _count(mine, name, count)
        for name, field in other.fields.items():
            if name in self.fields:
                self.fields[name].merge(field)
            elif len(self.fields) < FIELDS or field.distinct.kept == KEPT_UNIQUE:
                self.fields[name] = _copy(field)

    @property
    def coverage(self) -> dict[str, float]:
        """Field -> the share of items with a value."""
        total = self.items or 1
        return {name: round(field.filled / total, 4) for name, field in self.fields.items()}

    @property
    def version(self) -> str:
        """The code version of most items and pages; "" if none is known."""
        known = {name: count for name, count in self.versions.items() if name}
        return max(known, key=known.__getitem__, default="")


def merged(*contents: Content) -> Content:
    whole = Content()
    for content in contents:
        whole.merge(content)
    return whole


def section_of(url: str) -> str:
    """Host and first part of the path, if others follow, such as ``shop.example/books``."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return OTHER
    first, more, _ = parts.path.lstrip("/").partition("/")
    return f"{host}/{first if more else ''}"[:NAME]


def _kind(value: Any) -> str:
    kind = type_of(value)
    return "number" if kind == "integer" else kind


def _count(counts: dict[str, int], name: str, count: int = 1) -> None:
    if name not in counts and len(counts) >= NAMES:
        name = OTHER
    counts[name] = counts.get(name, 0) + count


def _add(mine: dict[Any, int], theirs: Mapping[Any, int]) -> None:
    for name, count in theirs.items():
        mine[name] = mine.get(name, 0) + count


def _copy(field: FieldContent) -> FieldContent:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(field), type=FieldContent)
