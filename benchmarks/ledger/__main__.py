"""``python -m benchmarks.ledger [--quick] [--pages N] [--rounds N]``"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from benchmarks.lab.chart import Bar, Panel
from benchmarks.lab.job import keep, run, say, show
from benchmarks.lab.node import MANAGE, Node, migrated
from benchmarks.lab.results import Spread
from benchmarks.ledger.without import ITEMS, NOTHING
from benchmarks.standard.runs import RUN_TIMEOUT, TIMEOUT_PER_PAGE, Bench
from benchmarks.standard.site import FEWEST

JOB = "ledger"
SPIDER = "standard"
PAGES, QUICK_PAGES, ROUNDS = 20_000, 2_000, 5
WITHOUT = (sys.executable, "-m", "benchmarks.ledger.without")
KINDS = {
    "with the ledger": MANAGE,
    "items alone": (*WITHOUT, ITEMS),
    "nothing stored": (*WITHOUT, NOTHING),
}


class Run(NamedTuple):
    """One crawl. ``cpu`` of the node, ``postgres`` of the database: seconds."""

    kind: str
    pages: int
    seconds: float
    cpu: float
    postgres: float

    @property
    def rate(self) -> float:
        return self.pages / self.seconds

    @property
    def cpu_per_page(self) -> float:
        """Milliseconds."""
        return 1000 * self.cpu / self.pages

    @property
    def postgres_per_page(self) -> float:
        """Milliseconds."""
        return 1000 * self.postgres / self.pages


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ledger",
        description="The standard job on one node of one worker: as it is, with its items alone "
        "in the database and no ledger, and with nothing stored. Takes about five minutes.",
    )
    parser.add_argument("--pages", type=int, help=f"of the site ({PAGES:,})")
    parser.add_argument("--rounds", type=int, help=f"({ROUNDS})")
    parser.add_argument("--quick", action="store_true", help=f"one round, {QUICK_PAGES:,} pages")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    pages = options.pages or (QUICK_PAGES if options.quick else PAGES)
    rounds = options.rounds or (1 if options.quick else ROUNDS)
    if rounds < 1 or pages < FEWEST:
        parser.error(f"--pages must be {FEWEST} or more, --rounds 1 or more")
    return run(JOB, lambda work: measure(pages, rounds, work, options.output))


def measure(pages: int, rounds: int, work: Path, output: Path | None) -> int:
    runs: list[Run] = []
    kinds = [*KINDS]
    with Bench(pages, work) as bench:
        template = migrated(bench.postgres, work / "tables")
        for number in range(rounds):
            first = number % len(kinds)
            for kind in kinds[first:] + kinds[:first]:
                runs.append(crawl(bench, kind, template, work / "node"))
                say(JOB, f"round {number + 1} of {rounds}, {kind}: {runs[-1].rate:,.0f} pages/s")
    _show(runs)
    figures = {"pages": pages, "runs": [one._asdict() for one in runs]}
    keep(JOB, figures, f"What the ledger costs: {pages:,} pages", _panels(runs), output)
    return 0


def crawl(bench: Bench, kind: str, template: str, var: Path) -> Run:
    """Crawls the site once, on a copy of the database ``template`` and an empty Redis."""
    bench.redis.flush()
    dsn = bench.postgres.new_database(template)
    pages = bench.site.pages
    try:
        before = bench.postgres.cpu_seconds()
        node = Node(
            var, dsn, bench.redis.url, spiders="benchmarks.standard.spiders", program=KINDS[kind]
        )
        with node:
            task = node.submit(SPIDER, url=bench.site.start)
            seconds = node.wait(task, RUN_TIMEOUT + TIMEOUT_PER_PAGE * pages)
            usage = node.stop()
        return Run(kind, pages, seconds, usage.cpu, bench.postgres.cpu_seconds() - before)
    finally:
        bench.postgres.drop(dsn)
        shutil.rmtree(var)


def _spread(runs: list[Run], kind: str, value: Callable[[Run], float]) -> Spread:
    return Spread.of(value(one) for one in runs if one.kind == kind)


def _show(runs: list[Run]) -> None:
    full = _spread(runs, "with the ledger", attrgetter("rate")).median
    rows = []
    for kind in KINDS:
        rate = _spread(runs, kind, attrgetter("rate"))
        rows.append(
            [
                kind,
                rate.text(".0f"),
                f"{1 - full / rate.median:+.0%}",
                _spread(runs, kind, attrgetter("cpu_per_page")).text(".3f"),
                _spread(runs, kind, attrgetter("postgres_per_page")).text(".3f"),
            ]
        )
    show(
        f"What the ledger costs: {runs[0].pages:,} pages, one worker, 64 in flight",
        ["pages/s", "lost by the ledger", "CPU ms/page", "PostgreSQL ms/page"],
        rows,
        "Medians, least and most. lost by the ledger: what the crawl with it lacks of this rate.",
    )


def _panels(runs: list[Run]) -> list[Panel]:
    bars = []
    for kind in KINDS:
        rate = _spread(runs, kind, attrgetter("rate"))
        bars.append(Bar(kind, {"": rate.median}, rate.low, rate.high))
    return [Panel("Speed (more is better)", "pages per second", bars)]


if __name__ == "__main__":
    sys.exit(main())
