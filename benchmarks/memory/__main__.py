"""``python -m benchmarks.memory [--pages N] [--quick]``"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.lab.job import keep, run, show
from benchmarks.memory.crawl import IN_FLIGHT, crawl
from benchmarks.memory.growth import Growth, Sample, growth

PAGES, QUICK = 1_000_000, 50_000
FEWEST = 1000
WARM = 0.3  # of the pages
MIB = 2**20
COLUMNS = (
    "then", "at the end", "highest, 1st third", "2nd", "3rd", "PSS", "RSS", "bytes/1,000 pages",
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.memory",
        description="One worker crawls a site of a million small pages, each under a URL of its "
        "own, while the memory of all processes and of Redis is looked at. The limits at which a "
        "worker is replaced are lifted, for they would hide growth. Takes about ten minutes.",
    )
    parser.add_argument("--pages", type=int, help=f"({PAGES:,})")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:,} pages; says no slope")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    pages = options.pages or (QUICK if options.quick else PAGES)
    if not FEWEST <= pages < 10**8:
        parser.error(f"--pages must be {FEWEST} to 99,999,999")
    return run("memory", lambda work: measure(pages, work, options.output))


def measure(pages: int, work: Path, output: Path | None) -> int:
    samples = crawl(pages, work)
    found = growth(samples, round(WARM * pages))
    if not any(row.name == "worker" for row in found):
        raise RuntimeError("the worker was replaced during the crawl, so its memory says nothing")
    _show_growth(found, samples, pages)
    figures = {
        "pages": pages,
        "in_flight": IN_FLIGHT,
        "warm_up": WARM,
        "growth": [{**row._asdict(), "slope": _or_none(row.slope)} for row in found],
        "samples": [sample._asdict() for sample in samples],
    }
    keep("memory", figures, output)
    return 0


def _show_growth(found: Sequence[Growth], samples: Sequence[Sample], pages: int) -> None:
    rows = []
    for row in found:
        pss = max(sample.pss.get(row.name, sample.redis_rss) for sample in samples)
        rss = max(sample.rss.get(row.name, sample.redis_rss) for sample in samples)
        slope = "too short" if math.isnan(row.slope) else f"{row.slope:+,.0f}"
        sizes = (row.first, row.last, *row.thirds, pss, rss)
        rows.append([row.name, *(f"{size / MIB:.1f}" for size in sizes), slope])
    rate = samples[-1].pages / samples[-1].seconds
    show(
        f"Memory in MiB after the first {WARM:.0%} of {pages:,} pages ({rate:,.0f} pages/s)",
        COLUMNS,
        rows,
        "USS of the processes (what only they have), Redis: what it has allocated; PSS (shared "
        "pages divided by those who share them) and RSS at their highest. Slope by least squares, "
        "of 670,000 pages or more. No worker was replaced: CRAWLFRAME_MAX_MEMORY and "
        "CRAWLFRAME_MAX_AGE were out of reach. A worker remembers 100,000 to 200,000 known links, "
        "then drops the older half: its line is a saw.",
    )


def _or_none(slope: float) -> float | None:
    return None if math.isnan(slope) else slope


if __name__ == "__main__":
    sys.exit(main())
