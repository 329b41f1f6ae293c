"""``python -m benchmarks.startup [--rounds N] [--quick]``"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks.lab.chart import Bar, Panel
from benchmarks.lab.job import keep, run, say, show
from benchmarks.lab.node import environment, migrated
from benchmarks.lab.postgres import Postgres
from benchmarks.lab.redis import RedisServer
from benchmarks.lab.results import Spread
from benchmarks.startup.starts import Place, Start, embedded, starts

ROUNDS, QUICK = 10, 2
GOAL = 1.5  # seconds


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.startup",
        description="Submits a task, starts a node with the spiders of this checkout, and measures "
        "the time until its first page was fetched: with SQLite and a private Redis that the node "
        "starts itself, and with PostgreSQL and Redis that are running. Takes about two minutes.",
    )
    parser.add_argument("--rounds", type=int, help=f"of each ({ROUNDS})")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} rounds")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    rounds = options.rounds if options.rounds is not None else QUICK if options.quick else ROUNDS
    if rounds < 1:
        parser.error("--rounds must be 1 or more")
    return run("startup", lambda work: measure(rounds, work, options.output))


def measure(rounds: int, work: Path, output: Path | None) -> int:
    done: dict[str, list[Start]] = {}
    with ExitStack() as stack:
        for place in places(work, stack):
            done[place.name] = []
            for one in starts(place, rounds):
                done[place.name].append(one)
                say("startup", f"{place.name}: {one.seconds:.2f} s, {one.cpu:.2f} s of CPU")
    spreads = {name: Spread.of(one.seconds for one in some) for name, some in done.items()}
    cpu = {name: Spread.of(one.cpu for one in some) for name, some in done.items()}
    show(
        "Seconds from the start of runcrawler to its first page",
        ["rounds", "least", "median", "most", "CPU, median"],
        [
            [name, str(rounds), *(f"{n:.2f}" for n in (s.low, s.median, s.high, cpu[name].median))]
            for name, s in spreads.items()
        ],
        f"goal: {GOAL:g}. The files that it reads are in the page cache of the system.",
    )
    bars = [Bar(name, {"": s.median}, s.low, s.high) for name, s in spreads.items()]
    panels = [Panel("Start of a node to its first page", "seconds", bars)]
    starts_of = {name: [one._asdict() for one in some] for name, some in done.items()}
    keep("startup", {"goal": GOAL, "starts": starts_of}, "Start-up", panels, output)
    return 0


def places(work: Path, stack: ExitStack) -> Iterator[Place]:
    """The starts to compare, the simplest first."""
    yield Place("SQLite, own Redis", work / "embedded", embedded(work / "embedded"))
    postgres = stack.enter_context(Postgres())
    redis = stack.enter_context(RedisServer(work / "redis"))
    template = migrated(postgres, work / "migrate")
    for number, options in enumerate([(), ("--reload",)]):
        var = work / f"served{number}"
        redis.flush()
        env = environment(var, postgres.new_database(template), redis.url)
        name = " ".join(["PostgreSQL, Redis running", *options])
        yield Place(name, var, env, options)


if __name__ == "__main__":
    sys.exit(main())
