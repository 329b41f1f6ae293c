"""Policies: which links are kept when there is no room for all. Each takes a stream of links and
the number of links that it may keep, and returns how many of the stream it knew."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial

from crawlframe.node.worker.sieve import Sieve

Policy = Callable[[Sequence[int], int], int]
NEVER = 1 << 60  # the place of a use that does not come
EVICTED = 0.1  # of the links, each time that the weighted cache is full


def two_generations(stream: Sequence[int], size: int) -> int:
    """The worker's own: when the younger half is full, the older half is dropped as a whole. A link
    that it knows is not looked at again, so this costs nothing where there is room for all."""
    sieve, hits = Sieve(size // 2), 0
    for link in stream:
        name = link.to_bytes(8)
        if any(name in known for known in sieve.of(1)):
            hits += 1
        else:
            sieve.add(1, [name])
    return hits


def _in_order(stream: Sequence[int], size: int, renews: bool) -> int:
    kept: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for link in stream:
        if link in kept:
            hits += 1
            if renews:
                kept.move_to_end(link)
            continue
        if len(kept) >= size:
            kept.popitem(last=False)
        kept[link] = None
    return hits


def lfu(stream: Sequence[int], size: int) -> int:
    """The one that was met least often while it was kept goes; of several, the oldest."""
    uses: dict[int, int] = {}
    order: list[tuple[int, int, int]] = []  # uses, time, link; those whose uses have grown are old
    hits = 0
    for now, link in enumerate(stream):
        if link in uses:
            hits += 1
        elif len(uses) >= size:
            while True:
                often, _, oldest = heapq.heappop(order)
                if uses.get(oldest) == often:
                    del uses[oldest]
                    break
        uses[link] = uses.get(link, 0) + 1
        heapq.heappush(order, (uses[link], now, link))
    return hits


def weighted(stream: Sequence[int], size: int) -> int:
    """As the patent has it ("partition by domain hash, noise links, weighted cache, layers"): a hit
    raises the repeats of a link and renews its time; the weight is the sum of both, each divided by
    the spread that it has in the cache. Those of the least weight go, a tenth at a time."""
    records: dict[int, tuple[int, int]] = {}  # link -> repeats, time
    hits = 0
    for now, link in enumerate(stream):
        repeats, _ = records.get(link, (0, 0))
        if repeats:
            hits += 1
        elif len(records) >= size:
            _drop_lightest(records, max(1, int(EVICTED * size)))
        records[link] = repeats + 1, now
    return hits


def _drop_lightest(records: dict[int, tuple[int, int]], number: int) -> None:
    repeats, times = zip(*records.values(), strict=True)
    fewest, first = min(repeats), min(times)
    of_repeats, of_times = max(repeats) - fewest or 1, max(times) - first or 1

    def weight_of(link: int) -> float:
        often, at = records[link]
        weight: float = (often - fewest) / of_repeats + (at - first) / of_times
        return weight

    for link in heapq.nsmallest(number, records, key=weight_of):
        del records[link]


def best(stream: Sequence[int], size: int) -> int:
    """The best possible, which knows the future (Belady, IBM Systems Journal 1966): the one whose
    next use is farthest goes, or is not kept at all."""
    next_use = [NEVER] * len(stream)
    last: dict[int, int] = {}
    for at in range(len(stream) - 1, -1, -1):
        next_use[at] = last.get(stream[at], NEVER)
        last[stream[at]] = at
    kept: dict[int, int] = {}  # link -> its next use
    farthest: list[tuple[int, int]] = []  # negative next use, link; some are old
    hits = 0
    for at, link in enumerate(stream):
        hits += link in kept
        kept[link] = next_use[at]
        heapq.heappush(farthest, (-next_use[at], link))
        while len(kept) > size:
            use, other = heapq.heappop(farthest)
            if kept.get(other) == -use:
                del kept[other]
    return hits


POLICIES: dict[str, Policy] = {
    "two generations (ours)": two_generations,
    "LRU": partial(_in_order, renews=True),
    "FIFO": partial(_in_order, renews=False),
    "LFU": lfu,
    "weighted, as in the patent": weighted,
    "best possible": best,
}
