"""Content: what the items and pages of a run are like, as counts and sketches of a few kilobytes
for each field. Contents can be merged.

Sketches: summaries of many values in little space, of which two of the same kind can be merged.

A LogHistogram is a DDSketch (Masson, Rim and Lee, VLDB 2019), Distinct a bottom-k sketch, which is
also known as KMV, with counts, and Frequent the algorithm of Misra and Gries.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from hashlib import blake2b
from heapq import nsmallest
from typing import Any
from urllib.parse import urlsplit

import msgspec

from crawlservice.quality.texts import count_letters, is_broken, words_of

WIDTH = math.log(1.1)  # of a bucket: values are known to 5 %
BUCKETS = 400  # of one sign, for 1e-8 to 1e8
MAX_HASHES = 128  # smallest hashes of a field
KEPT_UNIQUE = 4096  # of a field whose values must be unique: exact up to so many values
FREQUENT = 24  # values with a count
HASHES = 2.0**64
ALL = 2**64 - 1  # the greatest hash
FIELDS = 60  # of a run; further ones are not looked at
NAMES = 40  # statuses, sections and versions, each
NAME = 60  # characters of a value or a section
READ = 300  # texts of a field whose letters and words are counted in a window
WORDS = 48  # most frequent words of a field
OTHER = "…"


class LogHistogram(msgspec.Struct, array_like=True):
    """Counts of numbers in buckets whose limits grow by a factor. Bucket 0 is for zero; those of
    negative numbers are negative."""

    counts: dict[int, int] = {}

    def add(self, value: float) -> None:
        bucket = _bucket(value)
        self.counts[bucket] = self.counts.get(bucket, 0) + 1

    def merge(self, other: LogHistogram) -> None:
        for bucket, count in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def quantile(self, share: float) -> float:
        """Returns the value below which this share of the numbers is, to 5 %; 0.0 of none."""
        rank, passed = share * (self.total - 1), 0
        for bucket in sorted(self.counts):
            passed += self.counts[bucket]
            if passed > rank:
                return _middle(bucket)
        return 0.0


def _bucket(value: float) -> int:
    try:
        size = abs(float(value))
    except OverflowError:  # a whole number of hundreds of digits
        size = math.inf
    if not size > 1e-8:  # NaN, too
        return 0
    place = BUCKETS if math.isinf(size) else BUCKETS // 2 + round(math.log(size) / WIDTH)
    place = min(max(place, 1), BUCKETS)
    return place if value > 0 else -place


def _middle(bucket: int) -> float:
    size = math.exp((abs(bucket) - BUCKETS // 2) * WIDTH) if bucket else 0.0
    return size if bucket >= 0 else -size


def hash_of(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest())


class Distinct(msgspec.Struct, array_like=True):
    """The smallest hashes of values, each with its count. They are a fair sample of the distinct
    values, and a hash that is in it at the end has been since its first value."""

    kept: int = MAX_HASHES
    counts: dict[int, int] = {}
    most: int = ALL  # hashes above it are not kept

    def add(self, hash_: int) -> None:
        if hash_ > self.most:
            return
        counts = self.counts
        counts[hash_] = counts.get(hash_, 0) + 1
        if len(counts) > self.kept + self.kept // 4:
            self._shrink()

    def merge(self, other: Distinct) -> None:
        self.kept = max(self.kept, other.kept)
        self.most = min(self.most, other.most)
        for hash_, count in other.counts.items():
            self.counts[hash_] = self.counts.get(hash_, 0) + count
        if len(self.counts) > self.kept or self.most < ALL:
            self._shrink()

    def _shrink(self) -> None:
        smallest = nsmallest(self.kept, (one for one in self.counts if one <= self.most))
        if len(smallest) == self.kept:
            self.most = smallest[-1]
        self.counts = {hash_: self.counts[hash_] for hash_ in smallest}

    @property
    def estimate(self) -> float:
        """The number of distinct values: exact while all are kept."""
        return len(self.counts) / ((self.most + 1) / HASHES)

    @property
    def ratio(self) -> float:
        """Distinct values for each value: 1.0 if none occurs twice."""
        return len(self.counts) / sum(self.counts.values()) if self.counts else 0.0

    @property
    def repeated(self) -> int:
        """How many of the values kept occur more than once."""
        return sum(count > 1 for count in self.counts.values())


class Frequent(msgspec.Struct, array_like=True):
    """The most frequent values: each that is more than 1 of ``kept`` + 1 is there. Counts may be
    too low by ``lost``."""

    counts: dict[str, int] = {}
    lost: int = 0
    kept: int = FREQUENT

    def add(self, value: str) -> None:
        counts = self.counts
        if value in counts:
            counts[value] += 1
        elif len(counts) < self.kept:
            counts[value] = 1
        else:
            self._lower(1)

    def merge(self, other: Frequent) -> None:
        for value, count in other.counts.items():
            self.counts[value] = self.counts.get(value, 0) + count
        self.lost += other.lost
        if len(self.counts) > self.kept:
            self._lower(sorted(self.counts.values(), reverse=True)[self.kept])

    def _lower(self, count: int) -> None:
        self.lost += count
        self.counts = {value: n - count for value, n in self.counts.items() if n > count}

    @property
    def most(self) -> tuple[str, int]:
        """The most frequent value and its count; "" and 0 if there is none."""
        return max(self.counts.items(), key=lambda pair: pair[1], default=("", 0))


class FieldContent(msgspec.Struct, array_like=True):
    """One field: in how many items it is, and what its values are like. A value counts as filled
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
    """Items and pages that were read. ``statuses`` and ``sections`` are of pages, by HTTP status,
    and by host and first part of the path; ``errors`` those that ended in error."""

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
        """By field: the share of items in which it has a value."""
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
    """Such as ``shop.example/books``: the host and the first part of the path, if others follow."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return OTHER
    first, more, _ = parts.path.lstrip("/").partition("/")
    return f"{host}/{first if more else ''}"[:NAME]


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "text"
        case list():
            return "list"
        case _:
            return "object"


def _count(counts: dict[str, int], name: str, count: int = 1) -> None:
    if name not in counts and len(counts) >= NAMES:
        name = OTHER
    counts[name] = counts.get(name, 0) + count


def _add(mine: dict[Any, int], theirs: Mapping[Any, int]) -> None:
    for name, count in theirs.items():
        mine[name] = mine.get(name, 0) + count


def _copy(field: FieldContent) -> FieldContent:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(field), type=FieldContent)
