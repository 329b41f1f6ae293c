"""``python -m benchmarks.reload [--reloads N] [--only PART …] [--long] [--quick]``"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.lab.job import keep, run, say
from benchmarks.reload import report
from benchmarks.reload.changes import Run
from benchmarks.reload.crawls import Place, hand_overs, many_reloads, reloads, restarts
from benchmarks.reload.memory import Sample

JOB = "reload"
LATENCY = 0.2  # seconds before each answer of the slow site
PARTS = ("cpu", "latency", "memory", "framework", "restart")
LONG, SHORT = 1000, 50  # reloads of the memory part


def main() -> int:
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{JOB}",
        description="Changes code during crawls, and measures how soon a page is parsed by the new "
        "code, what that costs the crawl, and what a restart would. It works in a copy of this "
        "checkout. All of it takes about ten minutes.",
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
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    for name in ("reloads", "rounds", "modules"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be 1 or more")
    options.in_a_row = LONG if options.long else SHORT
    if options.quick:
        options.reloads, options.rounds, options.in_a_row = 6, 2, 10
    return run(JOB, lambda work: measure(options, work))


def measure(options: argparse.Namespace, work: Path) -> int:
    runs: dict[str, Run] = {}
    samples: list[Sample] = []

    def place(part: str) -> Place:
        return Place(work / part, 0.0 if part == "cpu" else LATENCY, options.modules)

    slow = f"pages take {LATENCY * 1000:g} ms"
    parts: dict[str, Callable[[], Run]] = {
        "cpu": lambda: reloads(place("cpu"), "busy processors", options.reloads),
        "latency": lambda: reloads(place("latency"), slow, options.reloads),
        "framework": lambda: hand_overs(place("framework"), options.rounds),
        "restart": lambda: restarts(place("restart"), options.rounds),
    }
    for part in options.only:
        say(JOB, part)
        if part == "memory":
            samples = many_reloads(place(part), options.in_a_row)
        else:
            runs[part] = parts[part]()
    if crawls := [runs[part] for part in ("cpu", "latency") if part in runs]:
        report.show_reloads(crawls)
    if samples:
        report.show_memory(samples)
    if compared := [runs[name] for name in ("latency", "framework", "restart") if name in runs]:
        report.show_comparison(compared)
    keep(JOB, report.as_dict([*runs.values()], samples), options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
