"""Run: what has been read of one run, in windows that follow each other, so that a fault that
begins late is not hidden by what was good before."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from crawlservice.quality.metrics import Key, metrics
from crawlservice.quality.profile import Content, merged

SMALLEST, LARGEST = 20, 200  # items of a window, or half of its pages; a tenth of what was before
OF_WINDOW = ("filled", "zero", "broken", "errors", "yield", "kind", "top", "section", "choice")
PARTS = ("filled", "section", "choice", "kind")  # 0 in a window that has none of them
ENOUGH = 10  # values in a window
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
        if self.window.pages >= 2 * _size(self.whole.pages // 2):
            self._close()

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
        for name in self.ranges:
            key = key_of(name)
            n = self.window.pages if key.monitor == "section" else self.window.items
            if key.monitor in PARTS and key not in found and n >= ENOUGH:
                self._note(key, 0.0, n)
        self.whole.merge(self.window)
        self.window = Content()

    def _note(self, key: Key, value: float, n: int) -> None:
        name, at = "\n".join(key), self.window_at
        known = self.ranges.get(name)
        if known is None:
            if len(self.ranges) < MOST_RANGES:
                later = key.monitor in PARTS and (self.whole.items or self.whole.pages)
                self.ranges[name] = Range(0.0 if later else value, n, at, value, n, at)
            return
        if value < known.low:
            known.low, known.low_n, known.low_at = value, n, at
        if value > known.high:
            known.high, known.high_n, known.high_at = value, n, at


def _size(before: int) -> int:
    return min(LARGEST, max(SMALLEST, before // 10))


def key_of(name: str) -> Key:
    """The metric of a range."""
    return Key(*name.split("\n", 2))


def encode(run: Run) -> bytes:
    return msgspec.msgpack.encode(run)


def decode(content: bytes | memoryview) -> Run:
    """Raises msgspec.MsgspecError."""
    return msgspec.msgpack.decode(content, type=Run, strict=False) if content else Run()
