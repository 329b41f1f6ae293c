"""Run: the content read of one run; its successive steps, so that a fault that starts late is not
hidden by good pages before; and its latest part, so that it is seen soon."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any

import msgspec

from crawlservice.quality.metrics import Key, Metric, metrics
from crawlservice.quality.profile import Content, FieldContent, merged
from crawlservice.quality.texts import distance, overlap, shares

BLOCK = 5  # items or pages of the smallest blocks
SIZE_BLOCKS = 3  # blocks of one size
LEVELS = 7  # sizes; items older than the largest blocks are dropped: some 1,000 items are looked at
STEP = 4  # smallest blocks
OF_STEP = ("filled", "zero", "broken", "errors", "kind", "top", "section")
PARTS = ("filled", "section")  # 0 in a step that has none of them
STEP_VALUES = 10  # values in a step
FEW_DONE = 3  # pages without an error
TOKENS, LETTERS = 40, 200  # words and letters that say something
PROSE = 30  # distinct texts from which a field is free text
MOST_RANGES = 600


class Block(msgspec.Struct, array_like=True):
    """``at``: Unix time of its first item or page. ``level``: how often it was doubled."""

    at: float
    content: Content = msgspec.field(default_factory=Content)
    level: int = 0


class Recent(msgspec.Struct, array_like=True):
    """The latest items, or pages, in blocks, so that every stretch that ends now can be looked at.
    Older blocks are larger, so there are few: those of ADWIN (Bifet and Gavaldà, Learning from
    Time-Changing Data with Adaptive Windowing, SIAM International Conference on Data Mining, 2007):
    of more than SIZE_BLOCKS blocks of one size, the two oldest become one of twice the size.

    ``blocks``: full blocks, the oldest first. ``open``: the block being filled. ``step``: the
    smallest blocks that were filled last, until they are STEP."""

    blocks: list[Block] = []
    open: Block | None = None
    step: Content = msgspec.field(default_factory=Content)
    step_at: float = 0.0
    step_blocks: int = 0

    def block(self, at: float) -> Content:
        """The block to which the next item or page is added."""
        if self.open is None:
            self.open = Block(at)
        return self.open.content

    def close(self) -> Content | None:
        """Closes the open block. Returns the step if that is complete now."""
        block, self.open = self.open, None
        assert block is not None
        if not self.step_blocks:
            self.step_at = block.at
        self.step.merge(block.content)
        self.step_blocks += 1
        self._keep(block)
        if self.step_blocks < STEP:
            return None
        step, self.step, self.step_blocks = self.step, Content(), 0
        return step

    def unmerged(self) -> Iterator[Content]:
        """Contents that no returned step has."""
        yield self.step
        if self.open is not None:
            yield self.open.content

    def stretches(self) -> Iterator[tuple[float, Content]]:
        """Stretches that end now, the shortest first: their start, and their content, which grows.
        Each is longer by half than its predecessor."""
        whole, last = Content(), 0
        blocks = [*self.blocks, self.open] if self.open is not None else self.blocks
        for block in reversed(blocks):
            whole.merge(block.content)
            size = whole.items + whole.pages
            if size >= BLOCK and 2 * size >= 3 * last:
                last = size
                yield block.at, whole

    def _keep(self, block: Block) -> None:
        blocks = self.blocks
        blocks.append(block)
        for level in range(LEVELS):
            alike = [place for place, one in enumerate(blocks) if one.level == level]
            if len(alike) <= SIZE_BLOCKS:
                return
            first, second = alike[:2]
            if level == LEVELS - 1:
                del blocks[first]
                return
            blocks[first].content.merge(blocks[second].content)
            blocks[first].level += 1
            del blocks[second]


class Range(msgspec.Struct, array_like=True):
    """The least and the greatest value of a metric in any step, each with the size of the step and
    when it began, in Unix time."""

    low: float
    low_n: int
    low_at: float
    high: float
    high_n: int
    high_at: float


class RunStats(msgspec.Struct, array_like=True):
    """``whole``: the steps that are complete. ``stride``: one of so many items is read. ``steps``:
    the range of each metric."""

    whole: Content = msgspec.field(default_factory=Content)
    stride: int = 1
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
        if block.pages >= BLOCK:
            self._note_yield(block, at)
            self._take(self.latest_pages)

    @property
    def items_read(self) -> int:
        return sum(part.items for part in self._parts())

    @property
    def pages_read(self) -> int:
        return sum(part.pages for part in self._parts())

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
        return RunStats(self.content(), self.stride, steps=self.steps)

    def content(self) -> Content:
        """All values that were read."""
        return merged(*self._parts())

    def _parts(self) -> Iterator[Content]:
        yield self.whole
        yield from self.latest_items.unmerged()
        yield from self.latest_pages.unmerged()

    def _take(self, latest: Recent) -> None:
        """A block is full."""
        at, step = latest.step_at, latest.close()
        if step is not None:
            self._note_shares(step, at)
            self.whole.merge(step)

    def _note_yield(self, pages: Content, at: float) -> None:
        done = pages.pages - pages.errors
        if done >= FEW_DONE:
            mean = max(pages.yielded / done, 1e-3)
            self._note(Key("yield"), math.log(mean), done, at)

    def _note_shares(self, step: Content, at: float) -> None:
        found = metrics(step)
        for key, metric in found.items():
            if key.monitor in OF_STEP and metric.n >= STEP_VALUES:
                made = self._note(key, metric.value, metric.n, at)
                known = self.whole.pages if key.monitor == "section" else self.whole.items
                if made and key.monitor in PARTS and known:
                    made.low, made.low_n = 0.0, 0  # in the steps before; how large is unknown
        for key in [*map(key_of, self.steps)]:
            n = count_of(key, step)
            if key.monitor in PARTS and key not in found and n >= STEP_VALUES:
                self._note(key, 0.0, n, at)
        for name, field in step.fields.items():
            if (before := self.whole.fields.get(name)) and is_prose(before):
                self._note_texts(name, field, before, at)

    def _note_texts(self, name: str, field: FieldContent, before: FieldContent, at: float) -> None:
        """Notes the likeness of the words and letters of a step to earlier ones."""
        if field.tokens >= TOKENS and before.tokens >= TOKENS:
            common = overlap(word_shares(field), word_shares(before))
            self._note(Key("words", name), min(common, 1.0), field.tokens // 2, at)
        if (number := sum(field.letters.values())) >= LETTERS:
            apart = distance(shares(field.letters), shares(before.letters))
            self._note(Key("letters", name), max(0.0, 1 - apart), number, at)

    def _note(self, key: Key, value: float, n: int, at: float) -> Range | None:
        """Returns the range if it is a new one."""
        name = "\n".join(key)
        known = self.steps.get(name)
        if known is None:
            if len(self.steps) >= MOST_RANGES:
                return None
            made = self.steps[name] = Range(value, n, at, value, n, at)
            return made
        if value < known.low:
            known.low, known.low_n, known.low_at = value, n, at
        if value > known.high:
            known.high, known.high_n, known.high_at = value, n, at
        return None


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
    if not content:
        return RunStats()
    try:
        return msgspec.msgpack.decode(content, type=RunStats, strict=False)
    except msgspec.ValidationError:
        old = msgspec.msgpack.decode(content)
        if len(old) != 11:
            raise
    # Before 0.2 it had windows of growing sizes, too.
    whole, window, _, _, stride, _, _, _, items, pages, steps = old
    run = msgspec.convert([whole, stride, items, pages, steps], RunStats, strict=False)
    run.whole.merge(msgspec.convert(window, Content, strict=False))
    return run
