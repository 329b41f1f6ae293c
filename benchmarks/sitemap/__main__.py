"""``python -m benchmarks.sitemap [--urls N] [--one-file] [--alone] [--quick]``"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.lab.chart import Line, Panel
from benchmarks.lab.job import keep, run, show
from benchmarks.sitemap.crawl import Sample
from benchmarks.sitemap.crawl import measure as measured

URLS, QUICK = 1_000_000, 100_000
FEWEST = 5_000
POINTS = 80  # of a line in the chart
SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)  # of the requests, at which a row is shown
MIB = 2**20


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sitemap",
        description="A sitemap lists a million pages, in files of 50,000 behind an index. The "
        "files are fetched over loopback, the pages cost no fetch. Memory of the worker, stalls "
        "of its event loop and requests that wait are looked at. Takes about 15 minutes.",
    )
    parser.add_argument("--urls", type=int, help=f"({URLS:,})")
    parser.add_argument("--one-file", action="store_true", help="all pages in a single file")
    parser.add_argument(
        "--alone", action="store_true", help="the sitemaps without their pages, which wait in Redis"
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:,} pages")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    urls = options.urls or (QUICK if options.quick else URLS)
    if not FEWEST <= urls <= 10**7:
        parser.error(f"--urls must be {FEWEST} to 10,000,000")
    kind = {"one": options.one_file, "alone": options.alone}
    return run("sitemap", lambda work: measure(urls, work, options.output, **kind))


def measure(urls: int, work: Path, output: Path | None, *, one: bool, alone: bool) -> int:
    samples = measured(urls, work, one=one, alone=alone)
    rows = []
    for share in SHARES:
        last = next((s for s in samples if s.admitted >= share * urls), samples[-1])
        before = [s for s in samples if s.seconds <= last.seconds]
        rows.append(_row(last, before))
    rows.append(_row(samples[-1], samples))
    title = f"A sitemap of {urls:,} pages in {'one file' if one else 'files of 50,000'}"
    title += ", alone" if alone else ""
    show(
        title,
        [
            *("admitted", "seconds", "most waiting", "worker MiB, most", "Redis MiB"),
            *("longest stall, ms", "computed, ms"),
        ],
        rows,
        "Worker: USS, what only it has. Computed: by the event loop in one piece, at most; the "
        "rest of a stall are other threads and other processes of the machine.",
    )
    figures = {
        "urls": urls,
        "one_file": one,
        "alone": alone,
        "samples": [s._asdict() for s in samples],
    }
    keep("sitemap", figures, title, panels(samples), output)
    return 0


def _row(last: Sample, before: list[Sample]) -> list[str]:
    return [
        f"{last.admitted:,}",
        f"{last.seconds:.0f}",
        f"{max(s.waiting for s in before):,}",
        f"{max(s.worker for s in before) / MIB:.1f}",
        f"{last.redis / MIB:.0f}",
        f"{1000 * last.stall:.0f}",
        f"{1000 * last.computed:.0f}",
    ]


def panels(samples: list[Sample]) -> list[Panel]:
    """The diagrams of the chart."""
    some = samples[:: max(1, len(samples) // POINTS)]
    x = "seconds"
    worker = [Line("worker", [(s.seconds, s.worker / MIB) for s in some])]
    waiting = [Line("waiting", [(s.seconds, s.waiting / 1000) for s in some])]
    stalls = [Line("longest stall", [(s.seconds, 1000 * s.stall) for s in some])]
    return [
        Panel("Worker", x, lines=worker, y="USS, MiB"),
        Panel("Waiting", x, lines=waiting, y="thousand requests"),
        Panel("Event loop", x, lines=stalls, y="longest stall, ms"),
    ]


if __name__ == "__main__":
    sys.exit(main())
