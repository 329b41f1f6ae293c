"""Run: what has been read of one run, in windows that follow each other, so that a fault that
begins late is not hidden by what was good before."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import msgspec

from crawlservice.quality.metrics import Key, metrics
from crawlservice.quality.profile import Content, FieldContent, merged
from crawlservice.quality.texts import distance, overlap, shares

SMALLEST, LARGEST = 20, 200  # items of a window, or half of its pages; a tenth of what was before
OF_WINDOW = ("filled", "zero", "broken", "errors", "kind", "top", "section")
PARTS = ("filled", "section")  # 0 in a window that has none of them
ENOUGH = 10  # values in a window
FEW_PAGES = 5  # of which a yield is noted
TOKENS, LETTERS = 40, 200  # words and letters that say something
PROSE = 30  # distinct texts from which a field is free text
MOST_RANGES = 600


class Range(msgspec.Struct, array_like=True):
    """The least and the greatest value of a metric in any window, each with the size of the window
    and when it began, in Unix time."""

    low: float
    low_n: int
    low_at: float
    high: float
    high_n: int
    high_at: float


class Run(msgspec.Struct, array_like=True):
    """``whole``: the windows that are complete. ``stride``: one of so many items is read."""

    whole: Content = msgspec.field(default_factory=Content)
    window: Content = msgspec.field(default_factory=Content)
    window_at: float = 0.0
    ranges: dict[str, Range] = {}
    stride: int = 1
    pages: int = 0  # done since ``pages_at``, of which the yield is noted next
    items: int = 0  # of these pages
    pages_at: float = 0.0

    def add_item(self, data: Any, version: str, at: float, unique: Collection[str]) -> None:
        self._begin(at)
        self.window.add_item(data, version, unique)
        if self.window.items >= _size(self.whole.items):
            self._close()

    def add_page(
        self, url: str, status: int | None, items: int, *, failed: bool, version: str, at: float
    ) -> None:
        self._begin(at)
        self.window.add_page(url, status, items, failed=failed, version=version)
        if not failed:
            self._count_yield(items, at)
        if self.window.pages >= 2 * _size(self.whole.pages // 2):
            self._close()

    def _count_yield(self, items: int, at: float) -> None:
        self.pages_at = self.pages_at if self.pages else at
        self.pages += 1
        self.items += items
        few = max(FEW_PAGES, min(LARGEST, self.whole.pages // 20))
        if self.pages >= 4 * few or (self.pages >= few and self.items >= 2 * few):
            mean = max(self.items / self.pages, 1e-3)
            self._note(Key("yield"), math.log(mean), self.pages, self.pages_at)
            self.pages = self.items = 0

    def content(self) -> Content:
        """All that was read."""
        return merged(self.whole, self.window)

    def _begin(self, at: float) -> None:
        if not self.window.items and not self.window.pages:
            self.window_at = at

    def _close(self) -> None:
        found = metrics(self.window)
        for key, metric in found.items():
            if key.monitor in OF_WINDOW and metric.n >= ENOUGH:
                self._note(key, metric.value, metric.n)
        for key in map(key_of, self.ranges):
            n = count_of(key, self.window)
            if key.monitor in PARTS and key not in found and n >= ENOUGH:
                self._note(key, 0.0, n)
        for name, field in self.window.fields.items():
            if (before := self.whole.fields.get(name)) and is_prose(before):
                self._note_texts(name, field, before)
        self.whole.merge(self.window)
        self.window = Content()

    def _note_texts(self, name: str, field: FieldContent, before: FieldContent) -> None:
        """How much the words and letters of a window have in common with those before it."""
        if field.tokens >= TOKENS and before.tokens >= TOKENS:
            common = overlap(word_shares(field), word_shares(before))
            self._note(Key("words", name), min(common, 1.0), field.tokens // 2)
        if (number := sum(field.letters.values())) >= LETTERS:
            apart = distance(shares(field.letters), shares(before.letters))
            self._note(Key("letters", name), max(0.0, 1 - apart), number)

    def _note(self, key: Key, value: float, n: int, since: float | None = None) -> None:
        name, at = "\n".join(key), self.window_at if since is None else since
        known = self.ranges.get(name)
        if known is None:
            if len(self.ranges) < MOST_RANGES:
                made = self.ranges[name] = Range(value, n, at, value, n, at)
                if key.monitor in PARTS and (self.whole.items or self.whole.pages):
                    made.low, made.low_n = 0.0, 0  # in the windows before; how large is unknown
            return
        if value < known.low:
            known.low, known.low_n, known.low_at = value, n, at
        if value > known.high:
            known.high, known.high_n, known.high_at = value, n, at


def _size(before: int) -> int:
    return min(LARGEST, max(SMALLEST, before // 10))


def count_of(key: Key, content: Content) -> int:
    """How many values a share of this key would be of."""
    if key.monitor == "section":
        return content.pages
    if key.monitor == "filled":
        return content.items
    field = content.fields.get(key.field)
    return field.filled if field else 0


def is_prose(field: FieldContent) -> bool:
    """Whether it is free text: neither one of a few choices nor addresses."""
    value, _ = field.frequent.most
    address = value.startswith(("http:", "https:", "/"))
    return field.distinct.estimate >= PROSE and field.tokens > 0 and not address


def word_shares(field: FieldContent) -> dict[str, float]:
    return {word: count / field.tokens for word, count in field.words.counts.items()}


def key_of(name: str) -> Key:
    """The metric of a range."""
    return Key(*name.split("\n", 2))


def encode(run: Run) -> bytes:
    return msgspec.msgpack.encode(run)


def decode(content: bytes | memoryview) -> Run:
    """Raises msgspec.MsgspecError."""
    return msgspec.msgpack.decode(content, type=Run, strict=False) if content else Run()
