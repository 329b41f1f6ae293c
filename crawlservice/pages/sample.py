"""Sample: the good pages of a callback and a template of URLs that stay, of all that workers have
kept."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain
from operator import attrgetter
from typing import NamedTuple

from crawlframe.pages.copy import TEMPLATES
from crawlframe.render.knowledge import form_of

ROW = 3_072  # bytes that a page takes besides its body: its headers, and its place in indexes


class SamplePage(NamedTuple):
    """A page of a sample of a spider's callback. ``stored``: bytes that its body takes."""

    number: int
    spider: str
    callback: str
    task: int
    url: str
    stored: int


def surplus(pages: Iterable[SamplePage], most: int, size: int) -> list[int]:
    """The numbers of the pages that go, given all of them, the newest first: of each callback and
    template stay ``most``, or as many fewer as ``size``, bytes of all that stay, requires; 0: no
    limit."""
    found: defaultdict[tuple[str, str], defaultdict[str, list[SamplePage]]]
    found = defaultdict(lambda: defaultdict(list))
    for page in pages:
        found[page.spider, page.callback][form_of(page.url)].append(page)
    ranked = [_ranked(some, most) for forms in found.values() for some in _samples(forms.values())]
    taken = [0] * most  # by all pages of one rank
    for some in ranked:
        for rank, page in enumerate(some[:most]):
            taken[rank] += page.stored + ROW
    places = sum(total <= size for total in accumulate(taken)) if size else most
    return [page.number for some in ranked for page in some[places:]]


def _samples(templates: Iterable[list[SamplePage]]) -> Iterator[list[SamplePage]]:
    """The pages of the largest templates of a callback, and together those of all others, of which
    a crawl of many hosts has thousands."""
    largest = sorted(templates, key=len, reverse=True)
    yield from largest[:TEMPLATES]
    others = chain.from_iterable(largest[TEMPLATES:])
    yield sorted(others, key=attrgetter("number"), reverse=True)


def _ranked(pages: list[SamplePage], most: int) -> list[SamplePage]:
    """The newest first, but one task has at most half of the places while others need them: its
    site may have changed before it."""
    parts: tuple[list[SamplePage], list[SamplePage]] = ([], [])
    of_task: Counter[int] = Counter()
    for page in pages:
        of_task[page.task] += 1
        parts[of_task[page.task] > (most + 1) // 2].append(page)
    return [*parts[0], *parts[1]]
