"""Run: the content read of one run, in successive windows, so that a fault that starts late is not
hidden by good pages before, and its latest part, so that it is seen soon."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from crawlservice.quality.metrics import Key, Metric, metrics
from crawlservice.quality.profile import Content, FieldContent, merged
from crawlservice.quality.recent import BLOCK, Recent
from crawlservice.quality.texts import distance, overlap, shares

MIN_WINDOW, MAX_WINDOW = 20, 200  # items of a window, or half of its pages; a tenth of those before
OF_WINDOW = ("filled", "zero", "broken", "errors", "kind", "top", "section")
PARTS = ("filled", "section")  # 0 in a window that has none of them
WINDOW_VALUES = 10  # values in a window
FEW_PAGES = 5  # pages in a sample of the yield
FEW_DONE = 3  # pages without an error
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


class Before(NamedTuple):
    """The content before a window."""

    items: int
    pages: int


class RunStats(msgspec.Struct, array_like=True):
    """``whole``: the windows that are complete. ``stride``: one of so many items is read.
    ``steps``: as ``ranges``, of short windows that are of the same size in all of the run."""

    whole: Content = msgspec.field(default_factory=Content)
    window: Content = msgspec.field(default_factory=Content)
    window_at: float = 0.0
    ranges: dict[str, Range] = {}
    stride: int = 1
    pages: int = 0  # done since ``pages_at``, the next sample of the yield
    items: int = 0  # of these pages
    pages_at: float = 0.0
    latest_items: Recent = msgspec.field(default_factory=Recent)
    latest_pages: Recent = msgspec.field(default_factory=Recent)
    steps: dict[str, Range] = {}

    def add_item(self, data: Any, version: str, at: float, unique: Collection[str]) -> None:
        block = self.latest_items.block(at)
        block.add_item(data, version, unique)
        if block.items >= BLOCK:
            self._take(self.latest_items)

    def add_page(
        self, url: str, status: int | None, items: int, *, failed: bool, version: str, at: float
    ) -> None:
        block = self.latest_pages.block(at)
        block.add_page(url, status, items, failed=failed, version=version)
        if not failed:
            self._count_yield(items, at)
        if block.pages >= BLOCK:
            self._note_yield(block, at)
            self._take(self.latest_pages)

    @property
    def items_read(self) -> int:
        return sum(part.items for part in (self.whole, self.window, *self._unmerged()))

    @property
    def pages_read(self) -> int:
        return sum(part.pages for part in (self.whole, self.window, *self._unmerged()))

    @property
    def version(self) -> str:
        """The code version of its latest part."""
        for part in (self.latest_items.blocks[-1:], self.latest_pages.blocks[-1:]):
            if part and part[0].content.version:
                return part[0].content.version
        return self.content().version

    def settled(self) -> RunStats:
        """A copy without the parts that are needed during a run only. The last pages often have
        fewer items, in later runs too."""
        for at, last in islice(self.latest_pages.stretches(), 1):
            self._note_yield(last, at)
        window = merged(self.window, *self._unmerged())
        return msgspec.structs.replace(
            self, window=window, latest_items=Recent(), latest_pages=Recent()
        )

    def _note_yield(self, pages: Content, at: float) -> None:
        done = pages.pages - pages.errors
        if done >= FEW_DONE:
            mean = max(pages.yielded / done, 1e-3)
            _note(self.steps, Key("yield"), math.log(mean), done, at)

    def _take(self, latest: Recent) -> None:
        """A block is full."""
        at, step = latest.step_at, latest.close()
        if step is None:
            return
        whole, window = self.whole, self.window
        before = Before(whole.items + window.items, whole.pages + window.pages)
        self._note_shares(self.steps, step, at, before)
        if not self.window.items and not self.window.pages:
            self.window_at = at
        window.merge(step)
        if window.items >= _size(whole.items) or window.pages >= 2 * _size(whole.pages // 2):
            self._close()

    def _unmerged(self) -> Iterator[Content]:
        yield from self.latest_items.unmerged()
        yield from self.latest_pages.unmerged()

    def _count_yield(self, items: int, at: float) -> None:
        self.pages_at = self.pages_at if self.pages else at
        self.pages += 1
        self.items += items
        few = max(FEW_PAGES, min(MAX_WINDOW, self.whole.pages // 20))
        if self.pages >= 4 * few or (self.pages >= few and self.items >= 2 * few):
            mean = max(self.items / self.pages, 1e-3)
            _note(self.ranges, Key("yield"), math.log(mean), self.pages, self.pages_at)
            self.pages = self.items = 0

    def content(self) -> Content:
        """All values that were read."""
        return merged(self.whole, self.window, *self._unmerged())

    def _close(self) -> None:
        before = Before(self.whole.items, self.whole.pages)
        self._note_shares(self.ranges, self.window, self.window_at, before)
        self.whole.merge(self.window)
        self.window = Content()

    def _note_shares(
        self, ranges: dict[str, Range], window: Content, at: float, before: Before
    ) -> None:
        found = metrics(window)
        for key, metric in found.items():
            if key.monitor in OF_WINDOW and metric.n >= WINDOW_VALUES:
                made = _note(ranges, key, metric.value, metric.n, at)
                known = before.pages if key.monitor == "section" else before.items
                if made and key.monitor in PARTS and known:
                    made.low, made.low_n = 0.0, 0  # in the windows before; how large is unknown
        for key in [*map(key_of, ranges)]:
            n = count_of(key, window)
            if key.monitor in PARTS and key not in found and n >= WINDOW_VALUES:
                _note(ranges, key, 0.0, n, at)
        for name, field in window.fields.items():
            if (earlier := self.whole.fields.get(name)) and is_prose(earlier):
                self._note_texts(ranges, name, field, earlier, at)

    def _note_texts(
        self, ranges: dict[str, Range], name: str, field: FieldContent, before: FieldContent,
        at: float,
    ) -> None:  # fmt: skip
        """Notes the likeness of the words and letters of a window to earlier ones."""
        if field.tokens >= TOKENS and before.tokens >= TOKENS:
            common = overlap(word_shares(field), word_shares(before))
            _note(ranges, Key("words", name), min(common, 1.0), field.tokens // 2, at)
        if (number := sum(field.letters.values())) >= LETTERS:
            apart = distance(shares(field.letters), shares(before.letters))
            _note(ranges, Key("letters", name), max(0.0, 1 - apart), number, at)


def _note(ranges: dict[str, Range], key: Key, value: float, n: int, at: float) -> Range | None:
    """Returns the range if it is a new one."""
    known = ranges.get("\n".join(key))
    if known is None:
        if len(ranges) >= MOST_RANGES:
            return None
        made = ranges["\n".join(key)] = Range(value, n, at, value, n, at)
        return made
    if value < known.low:
        known.low, known.low_n, known.low_at = value, n, at
    if value > known.high:
        known.high, known.high_n, known.high_at = value, n, at
    return None


def _size(before: int) -> int:
    return min(MAX_WINDOW, max(MIN_WINDOW, before // 10))


def count_of(key: Key, content: Content) -> int:
    """The number of values of which a share of this key is computed."""
    if key.monitor == "section":
        return content.pages
    if key.monitor == "filled":
        return content.items
    field = content.fields.get(key.field)
    return field.filled if field else 0


def absent(key: Key, content: Content) -> Metric | None:
    """The metric of a subject that does not occur."""
    if key.monitor in (*PARTS, "choice", "kind"):
        return Metric(0.0, count_of(key, content))
    return None


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


def encode(run: RunStats) -> bytes:
    return msgspec.msgpack.encode(run)


def decode(content: bytes | memoryview) -> RunStats:
    """Raises msgspec.MsgspecError."""
    return msgspec.msgpack.decode(content, type=RunStats, strict=False) if content else RunStats()
