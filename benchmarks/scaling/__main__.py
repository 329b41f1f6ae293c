"""``python -m benchmarks.scaling [--quick] [--pages N] [--nodes N,N] [--workers N,N]``"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from operator import attrgetter, methodcaller
from pathlib import Path

from benchmarks.lab.chart import Bar, Panel
from benchmarks.lab.job import keep, run, say, show
from benchmarks.lab.results import Spread
from benchmarks.scaling.cluster import IN_FLIGHT, Run, Size, crawl, prepared
from benchmarks.scaling.limits import limit
from benchmarks.standard.runs import Bench
from benchmarks.standard.site import FEWEST
from benchmarks.standard.stored import Wrong

PAGES, QUICK_PAGES = 20_000, 2_000
ROUNDS = 3
NODES, WORKERS = [1, 2, 3], [1, 2]
PROCESSORS = len(os.sched_getaffinity(0))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scaling",
        description="The standard job by 1 to 3 nodes of 1 and 2 workers, all on this machine, "
        "which also runs the site, Redis and PostgreSQL. Every row is checked. Takes about ten "
        "minutes.",
    )
    parser.add_argument("--pages", type=int, help=f"of the site ({PAGES:,})")
    parser.add_argument("--rounds", type=int, help=f"({ROUNDS})")
    parser.add_argument("--nodes", type=_numbers, default=NODES, metavar="N,N", help="(1,2,3)")
    parser.add_argument("--workers", type=_numbers, default=WORKERS, metavar="N,N",
                        help="of each node (1,2)")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help=f"one round, {QUICK_PAGES:,} pages")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    pages = options.pages or (QUICK_PAGES if options.quick else PAGES)
    rounds = options.rounds or (1 if options.quick else ROUNDS)
    if min(rounds, *options.nodes, *options.workers) < 1 or pages < FEWEST:
        parser.error(f"--pages must be {FEWEST} or more, the other numbers 1 or more")
    sizes = [Size(nodes, workers) for nodes in options.nodes for workers in options.workers]
    return run("scaling", lambda work: measure(pages, rounds, sizes, work, options.output))


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def measure(pages: int, rounds: int, sizes: Sequence[Size], work: Path, output: Path | None) -> int:
    runs: list[Run] = []
    with Bench(pages, work) as bench:
        template = prepared(bench, work)
        for number in range(rounds):
            for size in sizes:
                try:
                    done = crawl(bench, size, template, work)
                except Wrong as error:
                    raise RuntimeError(f"{size.label}: {error}") from error
                runs.append(done)
                say("scaling", f"round {number + 1} of {rounds}, {size.label}: "
                    f"{done.rate:,.0f} pages/s; limit: {limit(done, PROCESSORS)}")  # fmt: skip
    _show(runs, sizes)
    figures = {
        "pages": pages,
        "in_flight": IN_FLIGHT,
        "processors": PROCESSORS,
        "runs": [_as_dict(done) for done in runs],
    }
    title = f"Scaling on {PROCESSORS} processors: {pages:,} pages"
    keep("scaling", figures, title, panels(runs, sizes), output)
    return 0


def _show(runs: Sequence[Run], sizes: Sequence[Size]) -> None:
    parts = [*runs[0].cpu]
    first = _spread(runs, sizes[0], attrgetter("rate")).median
    rows = []
    for size in sizes:
        rate = _spread(runs, size, attrgetter("rate"))
        cpu = _spread(runs, size, methodcaller("per_page", "crawler"))
        busy = _spread(runs, size, attrgetter("busy"))
        shares = [_spread(runs, size, methodcaller("share", part)) for part in parts]
        rows.append(
            [
                size.label,
                rate.text(".0f"),
                f"{rate.median / first:.2f}",
                cpu.text(".3f"),
                *(f"{share.median:.2f}" for share in (*shares, busy)),
            ]
        )
    show(
        f"Scaling: {runs[0].pages:,} pages, {IN_FLIGHT} in flight per worker, one machine",
        ["pages/s", "times", "CPU ms/page", *parts, "machine"],
        rows,
        "Every row was checked. CPU ms/page: all processes of all nodes while the task ran. The "
        f"last five columns are processors used on average, of {PROCESSORS}; the machine's are "
        "also those of whatever else ran on it.",
    )
    for size in sizes:
        print(f"{size.label}: limited by {limit(_of(runs, size)[-1], PROCESSORS)}")


def _of(runs: Sequence[Run], size: Size) -> list[Run]:
    return [one for one in runs if one.size == size]


def _spread(runs: Sequence[Run], size: Size, value: Callable[[Run], float]) -> Spread:
    return Spread.of(map(value, _of(runs, size)))


def panels(runs: Sequence[Run], sizes: Sequence[Size]) -> list[Panel]:
    """The diagrams of the chart."""
    speed, cpu = [], []
    for size in sizes:
        rate = _spread(runs, size, attrgetter("rate"))
        speed.append(Bar(size.label, {"": rate.median}, rate.low, rate.high))
        parts = {
            part: _spread(runs, size, methodcaller("per_page", part)).median for part in runs[0].cpu
        }
        cpu.append(Bar(size.label, parts))
    return [
        Panel("Speed (more is better)", "pages per second", speed),
        Panel("CPU time per page", "milliseconds", cpu),
    ]


def _as_dict(done: Run) -> dict[str, object]:
    return {**done._asdict(), "size": done.size._asdict(), "limit": limit(done, PROCESSORS)}


if __name__ == "__main__":
    sys.exit(main())
