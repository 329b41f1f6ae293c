"""``python -m benchmarks.reparse [--quick] [--pages N]``"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from benchmarks.lab.chart import Bar, Panel
from benchmarks.lab.job import keep, run, say, show
from benchmarks.lab.node import CHECKOUT, Node, environment, manage, migrated
from benchmarks.lab.postgres import Postgres
from benchmarks.lab.redis import RedisServer

JOB = "reparse"
PAGES, QUICK = 50_000, 5_000
TIMEOUT = 3600.0  # seconds for a task
GOAL = 5_000  # pages a second and core through the store alone


class Result(NamedTuple):
    """``seconds``: of the clock; ``cpu``: of the worker's node, or of the reader."""

    kind: str
    pages: int
    seconds: float
    cpu: float


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.reparse",
        description="Pages of 3 KB are kept; then they are read from the store as a worker reads "
        "them, and parsed again by a task on a node of one worker: as a dry run and in earnest, "
        "with nothing changed. Takes about ten minutes.",
    )
    parser.add_argument("--pages", type=int, help=f"({PAGES:,})")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:,} pages")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    pages = options.pages or (QUICK if options.quick else PAGES)
    if not 500 <= pages < 10**7:
        parser.error("--pages must be 500 to 9,999,999")
    return run(JOB, lambda work: measure(pages, work, options.output))


def measure(pages: int, work: Path, output: Path | None) -> int:
    with Postgres() as postgres, RedisServer(work / "redis") as redis:
        dsn = postgres.new_database(migrated(postgres, work / "migrate"))
        env = environment(work / "read", dsn, redis.url)
        env |= {
            "CRAWLFRAME_SPIDERS": "benchmarks.reparse.spiders",
            "DJANGO_SETTINGS_MODULE": "crawlservice.node_settings",
        }
        results = [_fetched(pages, work, dsn, redis), _read(env)]
        say(JOB, f"the store alone: {_per_core(results[-1]):,.0f} pages/s and core")
        for kind, more in (("dry run", ["--dry-run"]), ("reparse", [])):
            results.append(_parsed(kind, pages, work, dsn, redis, env, more))
            say(JOB, f"{kind}: {pages / results[-1].seconds:,.0f} pages/s")
    show(
        f"{pages:,} kept pages",
        ["", "pages/s", "pages/s and core"],
        [
            [one.kind, f"{one.pages / one.seconds:,.0f}", f"{_per_core(one):,.0f}"]
            for one in results
        ],
        "Processor time of a node is that of all its processes.",
    )
    bars = [Bar(one.kind, {"pages/s": one.pages / one.seconds}) for one in results]
    figures = {"pages": pages, "goal": GOAL, "results": [one._asdict() for one in results]}
    keep(JOB, figures, f"{pages:,} kept pages", [Panel("Kept pages", "pages/s", bars=bars)], output)
    return 0


def _per_core(one: Result) -> float:
    return one.pages / one.cpu


def _node(work: Path, dsn: str, redis: RedisServer) -> Node:
    return Node(work, dsn, redis.url, spiders="benchmarks.reparse.spiders", concurrency=64)


def _fetched(pages: int, work: Path, dsn: str, redis: RedisServer) -> Result:
    with _node(work / "fetch", dsn, redis) as node:
        seconds = node.wait(node.submit("houses", pages=pages), TIMEOUT)
        return Result("fetch, parse and keep", pages, seconds, node.stop().cpu)


def _read(env: dict[str, str]) -> Result:
    command = [sys.executable, "-m", "benchmarks.reparse.store"]
    done = subprocess.run(command, cwd=CHECKOUT, env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the store cannot be read: {done.stderr[-2000:]}")
    read, _, cpu, seconds = map(float, done.stdout.split())
    return Result("the store alone", int(read), seconds, cpu)


def _parsed(
    kind: str,
    pages: int,
    work: Path,
    dsn: str,
    redis: RedisServer,
    env: dict[str, str],
    more: list[str],
) -> Result:
    with _node(work / kind.replace(" ", "-"), dsn, redis) as node:
        node.wait_until_known("houses")
        done = manage(env, "reparse", "1", "--background", *more)
        found = re.search(r"task (\d+) parses", done.stdout)
        if found is None:
            raise RuntimeError(f"got no task: {done.stdout}{done.stderr}")
        seconds = node.wait(int(found[1]), TIMEOUT)
        return Result(kind, pages, seconds, node.stop().cpu)


if __name__ == "__main__":
    sys.exit(main())
