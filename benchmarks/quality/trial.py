"""Trial: histories of runs go through the profiles and the judge of the service; some end with a
run that has a fault."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from benchmarks.quality.faults import FAULTS, MISSING
from benchmarks.quality.sites import SimulatedPage, Site, batches
from crawlframe.expect import Expect
from crawlservice.quality.found import Found
from crawlservice.quality.judge import judge
from crawlservice.quality.norms import RUNS, Good, Norms, Totals, norms_of
from crawlservice.quality.run import Run, decode, encode

STEPS, FINE_STEPS = 20, 100  # judgements during a run, of a good one and of one with a fault
NOTHING_EXPECTED = Expect()


class Seen(NamedTuple):
    """What was found in a run, and by which part of it (1: at its end)."""

    found: list[Found]
    part: float


class Result(NamedTuple):
    """One run. ``fault``: "" if it is good. ``began``: the part of the run at which it began."""

    seed: int
    shape: str
    day: int
    fault: str
    began: float
    seen: Seen
    pages: int

    @property
    def is_found(self) -> bool:
        return bool(self.seen.found)

    @property
    def delay(self) -> float:
        return self.seen.part - self.began

    @property
    def is_missing(self) -> bool:
        return self.fault in MISSING


def history(seed: int, fault: str = "") -> Iterator[Result]:
    """The runs of one site, of which each is judged after the first ones; the last one has the
    fault, if one is named."""
    random = Random(f"history {seed} {fault}")
    site = Site(seed)
    good: list[Good] = []
    last = random.randint(11, 15)
    for day in range(last + 1):
        pages = site.run(day)
        faulty, began = fault if day == last else "", 0.0
        if faulty:
            whole = random.random() < 0.5 or faulty in MISSING
            first = 0 if whole else round(len(pages) * random.uniform(0.3, 0.7))
            pages = pages[:first] + FAULTS[faulty](random, site, pages[first:])
            began = first / len(pages)
        norms = norms_of(good[:RUNS], alike=True)
        run, totals, seen = crawl(pages, norms, FINE_STEPS if faulty else STEPS)
        if norms.runs:
            yield Result(seed, site.shape, day, faulty, began, seen, len(pages))
        if not seen.found:
            good.insert(0, Good(day, run, totals))


def crawl(pages: list[SimulatedPage], norms: Norms, steps: int) -> tuple[Run, Totals, Seen]:
    """Reads the pages of a run in parts, and judges after each, as the service does."""
    run, items, done = Run(), 0, 0
    first = Seen([], 1.0)
    for batch in batches(pages, steps):
        for page in batch:
            done += 1
            for item in page.items:
                items += 1
                run.add_item(item, "v1", float(done), ())
            run.add_page(
                page.url,
                page.status,
                len(page.items),
                failed=page.failed,
                version="v1",
                at=float(done),
            )
        run = decode(encode(run))  # it is stored in between
        if norms.runs and not first.found:
            totals = Totals(items, done, None)
            found = judge(run, norms, NOTHING_EXPECTED, totals=totals, ended=False)
            if found:
                first = Seen(found, done / len(pages))
    totals = Totals(items, len(pages), None)
    if norms.runs and not first.found:
        first = Seen(judge(run, norms, NOTHING_EXPECTED, totals=totals, ended=True), 1.0)
    return run.settled(), totals, first


def plan(first: int, count: int) -> list[tuple[int, str]]:
    """Seeds of histories, half of them with a fault at the end: all kinds in turn."""
    kinds = [*FAULTS]
    return [
        (seed, kinds[seed // 2 % len(kinds)] if seed % 2 else "")
        for seed in range(first, first + count)
    ]
