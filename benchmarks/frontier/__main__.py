"""``python -m benchmarks.frontier [--quick] [--large] [--only TABLE,…]``"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.frontier import tables
from benchmarks.frontier.memory import Memory
from benchmarks.frontier.report import Report
from benchmarks.frontier.rows import server, tell
from benchmarks.frontier.tables import Line, Size
from benchmarks.lab.job import keep, run

TABLES = {"speed": tables.speed, "hosts": tables.hosts, "links": tables.links}
NAMES = ("speed", "lengths", "hosts", "links")


def main() -> int:
    options = parsed()
    size = Size(
        rounds=options.rounds or (1 if options.quick else 3),
        requests=2_000 if options.quick else 20_000,
        workers=options.workers,
        batch=options.batch,
        longest=100_000 if options.quick else 10_000_000 if options.large else 1_000_000,
        most_hosts=10_000 if options.quick else 1_000_000,
    )

    def measure(_: Path) -> int:
        report = measured(size, options.only)
        report.show()
        keep("frontier", report.figures(), options.output)
        return 0

    return run("frontier", measure)


def measured(size: Size, only: list[str]) -> Report:
    """Runs the tables that are requested."""
    with server() as redis:
        version = redis.version()
    lines: dict[str, list[Line]] = {}
    kept: list[Memory] = []
    for name in only:
        tell(name)
        if name == "lengths":
            lines[name], kept = tables.lengths(size)
        else:
            lines[name] = TABLES[name](size)
    return Report(lines, kept, version)


def parsed() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.frontier",
        description="Simulated workers claim requests, ask which links are known and complete, on "
        "a real Redis of their own, without fetching. Counters and queues are checked after every "
        "measurement. Exit code 2 when one is wrong.",
    )
    parser.add_argument("--quick", action="store_true", help="one short round, shorter queues")
    parser.add_argument("--large", action="store_true",
                        help="queues up to ten million requests: 2.5 GB, ten minutes")  # fmt: skip
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(NAMES),
                        metavar="TABLES", help=f"some of {','.join(NAMES)}")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=0, help="(3)")
    parser.add_argument("--workers", type=int, default=2, help="simulated, each a process (2)")
    parser.add_argument("--batch", type=int, default=64, help="requests per claim (64)")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    if unknown := set(options.only) - set(NAMES):
        parser.error(
            f"--only: there is no {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}"
        )
    if options.rounds < 0 or options.workers < 1 or not 1 <= options.batch <= 500:
        parser.error("--rounds and --workers must be 1 or more, --batch 1 to 500")
    return options


if __name__ == "__main__":
    sys.exit(main())
