"""``python -m benchmarks.frontier [--quick] [--large] [--only TABLE,…]``"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from redis import RedisError

from benchmarks.frontier import memory, tables
from benchmarks.frontier.memory import Memory, Peer
from benchmarks.frontier.report import Report
from benchmarks.frontier.rows import server, tell
from benchmarks.frontier.tables import HOSTS, LINKS, QUEUE, Line, Size
from benchmarks.lab import results
from crawlframe.errors import CrawlframeError

TABLES = {"speed": tables.speed, "hosts": tables.hosts, "links": tables.links}
NAMES = ("speed", "lengths", "hosts", "links", "peers")


def main() -> int:
    options = parsed()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was started is stopped
    size = Size(
        rounds=options.rounds or (1 if options.quick else 3),
        requests=2_000 if options.quick else 20_000,
        workers=options.workers,
        batch=options.batch,
        longest=100_000 if options.quick else 10_000_000 if options.large else 1_000_000,
        most_hosts=10_000 if options.quick else 1_000_000,
    )
    try:
        report = measured(size, options.only)
    except (OSError, RuntimeError, CrawlframeError, RedisError) as error:
        print(f"frontier: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    report.show()
    tell(f"figures: {results.write('frontier', report.figures(), options.output)}")
    try:
        report.draw(options.output.with_suffix(".svg"))
    except (OSError, RuntimeError) as error:
        tell(str(error))
    return 0


def measured(size: Size, only: list[str]) -> Report:
    """Runs the tables that are requested."""
    with server() as redis:
        version = redis.version()
    lines: dict[str, list[Line]] = {}
    kept: list[Memory] = []
    peers: list[Peer] = []
    for name in only:
        tell(name)
        if name == "peers":
            peers = memory.peers(QUEUE, size.requests // 5, LINKS, HOSTS, *tables.UNSAVED)
        elif name == "lengths":
            lines[name], kept = tables.lengths(size)
        else:
            lines[name] = TABLES[name](size)
    return Report(lines, kept, peers, version)


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
    parser.add_argument("--output", type=Path, default=results.PLACE / "frontier.json")
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
