"""PreviewRun: gives each page to a worker of both versions, and compares their results as they
arrive. Only a few pages are in memory at a time."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import chain

from msgspec.structs import replace

from crawlframe.node.channel import ChannelClosed
from crawlframe.preview.comparison import Tried
from crawlframe.preview.side import Order, PageTried, PreviewFailed, Side, ToWorker

WINDOW = 16  # pages that wait for a worker
MAX_BYTES = 16 << 20  # bytes of bodies that wait for a worker, unless one has more
DEATHS = 2  # pages of a spider that may end a worker; the others are left out then
TICK = 0.25  # seconds between two looks at workers that may hang
DEAD_AT_ONCE = 3  # workers that may end before they have tried a page


@dataclass
class _Pages:
    """One page in both versions. ``again``: it runs in the old one once more."""

    order: Order
    before: Tried | None = None
    after: Tried | None = None
    again: Tried | None = None


class TryingWorker:
    """The parent's view of one worker. ``pending``: the pages that it was given and has not
    answered, in order. ``limit``: seconds that a page may take."""

    def __init__(self, side: Side, limit: float) -> None:
        self._side, self._limit = side, limit
        self._pid, self.channel, _ = side.fork()
        self.pending: dict[int, Order] = {}
        self._deaths: dict[str, int] = {}
        self._early = 0
        self._since = 0.0

    def give(self, order: Order) -> None:
        if not self.pending:
            self._since = time.monotonic()
        self.pending[order.number] = order
        self._send(order)

    @property
    def waiting_bytes(self) -> int:
        return sum(order.size for order in self.pending.values())

    def results(self, readable: bool) -> Iterator[tuple[int, Tried]]:
        """Number and result of each page that is done, was left out, or has ended the worker."""
        with suppress(ChannelClosed):  # it is replaced when all its results are read
            self.channel.flush()
        try:
            for message in self.channel.receive() if readable else ():
                if not isinstance(message, PageTried):
                    continue
                self._since, self._early = time.monotonic(), 0
                del self.pending[message.number]
                yield message.number, message.result
        except ChannelClosed:
            yield from self._replace("ended its process ({})")
        if self.pending and time.monotonic() - self._since > self._limit:
            yield from self._replace(f"took longer than {self._limit:g} s")

    def _replace(self, words: str) -> Iterator[tuple[int, Tried]]:
        """Forks another worker, which gets the pages after the one that was being tried."""
        self.channel.close()
        self._pid, self.channel, how = self._side.fork(self._pid)
        self._early += 1
        if self._early > DEAD_AT_ONCE and not self.pending:
            raise PreviewFailed(f"{self._side.tree.name}: its workers end at once ({how})")
        waiting, self.pending = [*self.pending.values()], {}
        for place, order in enumerate(waiting):
            if place == 0:
                self._deaths[order.spider] = self._deaths.get(order.spider, 0) + 1
                yield order.number, Tried(problem=words.format(how))
            elif why := self.left_out(order.spider):
                yield order.number, Tried(problem=why, left_out=True)
            else:
                self.give(order)

    def left_out(self, spider: str) -> str:
        """Why no page of a spider is given to it any more; "" if it is."""
        if self._deaths.get(spider, 0) < DEATHS:
            return ""
        return f"{DEATHS} of its pages ended the process, or took too long"

    def close(self) -> None:
        self.channel.close()

    def _send(self, order: Order) -> None:
        with suppress(ChannelClosed):
            self.channel.send(order)


@dataclass
class PreviewRun:
    """``limit``: seconds that a page may take. ``lanes``: workers of each version."""

    old: Side
    new: Side
    lanes: int
    limit: float
    take: Callable[[Order, Tried, Tried, Tried | None], bool]
    _pages: dict[int, _Pages] = field(default_factory=dict)
    _number: int = 0
    _lanes: list[tuple[TryingWorker, TryingWorker]] = field(default_factory=list)

    def run(self, pages: Iterable[Order]) -> None:
        """Gives ``take`` each page with the results of both versions. If it returns False, the page
        runs once more by the old one, and is given again with that result. Raises PreviewFailed."""
        with ExitStack() as stack:
            self._lanes = [
                (self._worker(self.old), self._worker(self.new)) for _ in range(self.lanes)
            ]
            for worker in chain.from_iterable(self._lanes):
                stack.callback(worker.close)
            for page in pages:
                while not (free := [lane for lane in self._lanes if _has_room(lane)]):
                    self._step()
                self._begin(page, min(free, key=_load))
                self._step(wait=False)
            while self._pages:
                self._step()

    def _worker(self, side: Side) -> TryingWorker:
        return TryingWorker(side, self.limit)

    def _begin(self, page: Order, lane: tuple[TryingWorker, TryingWorker]) -> None:
        self._number += 1
        order = replace(page, number=self._number)
        self._pages[order.number] = _Pages(order)
        for worker in lane:
            if why := worker.left_out(order.spider):
                self._answer(
                    lane, worker is lane[1], order.number, Tried(problem=why, left_out=True)
                )
            else:
                worker.give(order)

    def _step(self, *, wait: bool = True) -> None:
        """Exchanges messages with the workers."""
        channels = [worker.channel for lane in self._lanes for worker in lane]
        busy = [channel for channel in channels if channel.pending]
        readable: list[ToWorker]
        readable, _, _ = select.select(channels, busy, [], TICK if wait else 0.0)
        for lane in self._lanes:
            for worker in lane:
                for number, tried in worker.results(worker.channel in readable):
                    self._answer(lane, worker is lane[1], number, tried)

    def _answer(
        self, lane: tuple[TryingWorker, TryingWorker], is_new: bool, number: int, tried: Tried
    ) -> None:
        one = self._pages[number]
        if is_new:
            one.after = tried
        elif one.before is None:
            one.before = tried
        else:
            one.again = tried
        if one.before is None or one.after is None:
            return
        if self.take(one.order, one.before, one.after, one.again):
            del self._pages[number]
        else:
            lane[0].give(one.order)


def _has_room(lane: tuple[TryingWorker, TryingWorker]) -> bool:
    return all(len(one.pending) < WINDOW and one.waiting_bytes < MAX_BYTES for one in lane)


def _load(lane: tuple[TryingWorker, TryingWorker]) -> int:
    return max(len(worker.pending) for worker in lane)
