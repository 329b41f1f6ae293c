"""Sample: the good pages of a callback that stay, of all that workers have kept for it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

ROW = 2_048  # bytes that a page takes besides its body: its headers, and its place in indexes


class SamplePage(NamedTuple):
    """A page of the sample of a spider's callback. ``stored``: bytes that its body takes."""

    number: int
    spider: str
    callback: str
    task: int
    stored: int


def surplus(pages: Iterable[SamplePage], most: int, size: int) -> list[int]:
    """The numbers of the pages that go, given all of them, the newest first: each callback keeps
    ``most``, or as many fewer as ``size``, bytes of all that stay, requires; 0: no limit. One task
    has at most half of a callback's places while others need them: its site may have changed before
    it."""
    found: defaultdict[tuple[str, str], tuple[list[SamplePage], list[SamplePage]]]
    found = defaultdict(lambda: ([], []))
    of_task: Counter[tuple[str, int]] = Counter()
    for page in pages:
        of_task[page.callback, page.task] += 1
        crowded = of_task[page.callback, page.task] > (most + 1) // 2
        found[page.spider, page.callback][crowded].append(page)
    ranked = [[*first, *others] for first, others in found.values()]
    taken = [0] * most  # by all pages of one rank
    for some in ranked:
        for rank, page in enumerate(some[:most]):
            taken[rank] += page.stored + ROW
    places = sum(total <= size for total in accumulate(taken)) if size else most
    return [page.number for some in ranked for page in some[places:]]
