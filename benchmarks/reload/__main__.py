"""``python -m benchmarks.reload [--reloads N] [--only PART …] [--long]``"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.reload import report
from benchmarks.reload.changes import Run
from benchmarks.reload.crawls import Place, hand_overs, many_reloads, reloads, restarts
from benchmarks.reload.jobdir import install, scrapy_restarts, version
from benchmarks.reload.memory import Sample
from crawlframe.errors import CrawlframeError

LATENCY = 200.0  # milliseconds before each answer of the slow site
PARTS = ("cpu", "latency", "steps", "memory", "framework", "restart", "scrapy")
LONG, SHORT = 1000, 50  # reloads of the memory part
WIDTH = 110  # of the tables


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.reload",
        description="Changes code during crawls of the demo site, and measures how soon a page is "
        "parsed by the new code, what that costs the crawl, and what a restart would. It works in "
        "a copy of this checkout. All of it takes about a quarter of an hour.",
    )
    parser.add_argument("--reloads", type=int, default=60, help="per crawl (%(default)s)")
    parser.add_argument("--rounds", type=int, default=10, help="of each restart (%(default)s)")
    parser.add_argument("--modules", type=int, default=100, help="of spiders (%(default)s)")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART",
                        help=f"some of {', '.join(PARTS)}")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="6 reloads, 2 rounds, 10 for memory")
    parser.add_argument(
        "--long", action="store_true", help=f"{LONG} reloads for the memory, not {SHORT}"
    )
    parser.add_argument("--json", type=Path, help="write all figures into this file")
    parser.add_argument("--chart", type=Path, help="draw the reloads into this file (SVG)")
    options = parser.parse_args()
    for name in ("reloads", "rounds", "modules"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be 1 or more")
    options.in_a_row = LONG if options.long else SHORT
    if options.quick:
        options.reloads, options.rounds, options.in_a_row = 6, 2, 10
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was started is stopped
    try:
        with tempfile.TemporaryDirectory(prefix="reload-") as work:
            measure(options, Path(work))
    except (OSError, RuntimeError, CrawlframeError) as error:
        print(f"reload: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def measure(options: argparse.Namespace, work: Path) -> None:
    """Runs the parts, and prints and writes the results."""
    console = Console(highlight=False, width=WIDTH)
    slow = f"pages take {LATENCY:g} ms"
    runs: dict[str, Run] = {}
    samples: list[Sample] = []

    def place(part: str) -> Place:
        return Place(work / part, 0.0 if part == "cpu" else LATENCY, options.modules)

    def reload_part(part: str, name: str, count: int) -> Run:
        return reloads(place(part), name, count, steps=part == "steps")

    parts: dict[str, Callable[[], Run]] = {
        "cpu": lambda: reload_part("cpu", "busy processors", options.reloads),
        "latency": lambda: reload_part("latency", slow, options.reloads),
        "steps": lambda: reload_part("steps", "steps", min(options.reloads, 20)),
        "framework": lambda: hand_overs(place("framework"), options.rounds),
        "restart": lambda: restarts(place("restart"), options.rounds),
        "scrapy": lambda: scrapy_restarts(place("scrapy"), options.rounds),
    }
    console.print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}", "")
    for part in options.only:
        print(f"reload: {part} …", file=sys.stderr, flush=True)
        if part == "memory":
            samples = many_reloads(place(part), options.in_a_row)
        elif part != "scrapy" or _has_scrapy(console):
            runs[part] = parts[part]()
    crawls = [runs[part] for part in ("cpu", "latency") if part in runs]
    others = [runs[part] for part in PARTS if part in runs and runs[part] not in crawls]
    if crawls:
        report.print_reloads(console, crawls, slow)
    if "steps" in runs:
        report.print_steps(console, runs["steps"])
    if samples:
        report.print_memory(console, samples)
    names = ("latency", "framework", "restart", "scrapy")
    if compared := [runs[part] for part in names if part in runs]:
        report.print_comparison(console, compared)
    if options.json:
        data = {"machine": _machine(), **report.as_dict(crawls, others, samples)}
        options.json.write_text(json.dumps(data, indent=1) + "\n")
    if options.chart and crawls:
        options.chart.write_text(report.chart(crawls))


def _has_scrapy(console: Console) -> bool:
    try:
        console.print(f"compared with {version(install())}")
    except (OSError, RuntimeError) as error:
        console.print(f"Scrapy cannot be installed, so nothing is compared with it: {error}")
        return False
    return True


def _machine() -> dict[str, Any]:
    return {
        "processors": os.cpu_count(),
        "load": os.getloadavg(),
        "python": platform.python_version(),
        "system": platform.platform(),
    }


if __name__ == "__main__":
    sys.exit(main())
