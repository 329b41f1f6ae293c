"""``python -m benchmarks.starts [--urls N] [--alone] [--quick]``"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.lab.chart import Line, Panel
from benchmarks.lab.job import keep, run, show
from benchmarks.starts.crawl import Sample
from benchmarks.starts.crawl import measure as measured

URLS, QUICK = 1_000_000, 50_000
FEWEST = 5_000
POINTS = 80  # of a line in the chart
TENTHS = (0.1, 0.25, 0.5, 0.75, 1.0)  # of the requests, at which memory is shown
MIB = 2**20


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.starts",
        description="The start of a spider yields a million requests, which cost no fetch, while "
        "the memory of the worker and of Redis is looked at: Redis holds what waits, which "
        "CRAWLFRAME_START_AHEAD limits. Takes about 15 minutes.",
    )
    parser.add_argument("--urls", type=int, help=f"({URLS:,})")
    parser.add_argument(
        "--alone",
        action="store_true",
        help="the start without its requests and without that limit: how fast it is recorded. "
        "Redis holds all then, 1.5 GB of 10 million",
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:,} requests")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    urls = options.urls or (QUICK if options.quick else URLS)
    if not FEWEST <= urls < 10**8:
        parser.error(f"--urls must be {FEWEST} to 99,999,999")
    return run("starts", lambda work: measure(urls, work, options.output, alone=options.alone))


def measure(urls: int, work: Path, output: Path | None, *, alone: bool) -> int:
    samples = measured(urls, work, alone=alone)
    rows = []
    for share in TENTHS:
        one = next((s for s in samples if s.admitted >= share * urls), samples[-1])
        before = [s for s in samples if s.seconds <= one.seconds]
        rows.append(
            [
                f"{one.admitted:,}",
                f"{one.seconds:.0f}",
                f"{one.admitted / max(one.seconds, 0.001):,.0f}",
                f"{max(s.waiting for s in before):,}",
                f"{max(s.worker for s in before) / MIB:.1f}",
                f"{one.redis / MIB:.0f}",
            ]
        )
    show(
        f"A start of {urls:,} requests{', alone' if alone else ''}",
        ["admitted", "seconds", "per second", "most waiting", "worker MiB, most", "Redis MiB"],
        rows,
        "Worker: USS, what only it has. Redis: what it has allocated.",
    )
    figures = {"urls": urls, "alone": alone, "samples": [s._asdict() for s in samples]}
    keep("starts", figures, f"A start of {urls:,} requests", panels(samples), output)
    return 0


def panels(samples: list[Sample]) -> list[Panel]:
    """The diagrams of the chart."""
    some = samples[:: max(1, len(samples) // POINTS)]
    x = "seconds"
    worker = [Line("worker", [(s.seconds, s.worker / MIB) for s in some])]
    redis = [Line("Redis", [(s.seconds, s.redis / MIB) for s in some])]
    waiting = [Line("waiting", [(s.seconds, s.waiting / 1000) for s in some])]
    return [
        Panel("Worker", x, lines=worker, y="USS, MiB"),
        Panel("Redis", x, lines=redis, y="allocated, MiB"),
        Panel("Waiting", x, lines=waiting, y="thousand requests"),
    ]


if __name__ == "__main__":
    sys.exit(main())
