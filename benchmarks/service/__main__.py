"""``python -m benchmarks.service [--quick] [--pages N] [--tasks N] [--rounds N]``"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack, closing
from pathlib import Path

from benchmarks.api.web import Web
from benchmarks.lab.chart import Bar, Panel
from benchmarks.lab.job import keep, run, say, show
from benchmarks.lab.node import NODE_TIMEOUT, POLL_EVERY, Node, migrated
from benchmarks.lab.postgres import Postgres
from benchmarks.lab.redis import RedisServer
from benchmarks.lab.results import Spread
from benchmarks.service.filling import PAUSED, Size, fill
from benchmarks.service.places import places
from crawlframe.conf import Settings
from crawlframe.frontier import Frontier, TaskLimits
from crawlframe.request import root_admission

JOB = "service"
SPIDERS = "benchmarks.api.spiders"
GOAL = 300  # milliseconds for any page
MEMORY = {"shared_buffers": "1GB", "effective_cache_size": "4GB", "maintenance_work_mem": "512MB"}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.service",
        description="How long each page of the service takes in a large installation. Exit code 1 "
        f"when the median of one is above {GOAL} ms.",
    )
    parser.add_argument("--pages", type=int, help="ledger rows, as many items (10 million)")
    parser.add_argument("--tasks", type=int, help="(100 thousand)")
    parser.add_argument("--rounds", type=int, default=5, help="(5)")
    parser.add_argument("--quick", action="store_true", help="100 thousand pages, 1 thousand tasks")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    options.pages = options.pages or (100_000 if options.quick else 10_000_000)
    options.tasks = options.tasks or (1_000 if options.quick else 100_000)
    if options.rounds < 1 or options.tasks < 100 or options.pages < options.tasks:
        parser.error("--rounds must be above 0, --tasks 100 or more, --pages no less than --tasks")
    return run(JOB, lambda work: measure(options, work))


def measure(options: argparse.Namespace, work: Path) -> int:
    size = Size(options.pages, options.tasks)
    with ExitStack() as stack:
        postgres = stack.enter_context(Postgres(**MEMORY))
        redis = stack.enter_context(RedisServer(work / "redis"))
        dsn = migrated(postgres, work / "tables")
        servers = work / "node", dsn, redis.url
        # It runs on while the rows are added: one that started afterwards would find more of them
        # than this Redis has counted, and fill Redis again.
        node = stack.enter_context(Node(*servers, spiders=SPIDERS))
        node.wait_until_known("brief")
        _wait_for_era(redis.url)
        _open(redis.url)
        started = time.monotonic()
        fill(dsn, size, lambda text: say(JOB, text))
        say(JOB, f"filled in {time.monotonic() - started:,.0f} s")
        web = stack.enter_context(Web(*servers, "administrator"))
        found = _ask(web, places(size, size.pages // 2), options.rounds)
    _show(found, size)
    slow = [name for name, spread in found.items() if spread.median > GOAL]
    figures = {"size": size._asdict(), "rounds": options.rounds,
               "milliseconds": {name: one._asdict() for name, one in found.items()}}  # fmt: skip
    title = f"{size.pages:,} ledger rows, {size.tasks:,} tasks"
    keep(JOB, figures, title, _panels(found), options.output)
    return 1 if slow else 0


def _wait_for_era(redis: str) -> None:
    """Raises RuntimeError if the node does not begin one in time."""
    frontier = Frontier.connect(redis, Settings())
    deadline = time.monotonic() + NODE_TIMEOUT
    with closing(frontier.store.redis):
        while not frontier.eras.settled():
            if time.monotonic() > deadline:
                raise RuntimeError(f"no era has begun in {NODE_TIMEOUT:.0f} s")
            time.sleep(POLL_EVERY)


def _open(redis: str) -> None:
    """Makes the unfinished tasks known to the frontier; paused, so that no node ends them."""
    frontier = Frontier.connect(redis, Settings())
    for task in range(1, PAUSED + 1):
        frontier.open_task(task, TaskLimits(), [root_admission(task, 0)])
        frontier.pause(task)
    frontier.store.redis.close()


def _ask(web: Web, asked: dict[str, str], rounds: int) -> dict[str, Spread]:
    """Milliseconds until the last byte of each place. Raises RuntimeError when one fails."""
    session = web.logged_in()
    took: dict[str, list[float]] = {name: [] for name in asked}
    for number in range(rounds + 1):  # the first round fills caches and is not reported
        for name, address in asked.items():
            started = time.perf_counter()
            answer = session.get(web.url + address, timeout=120)
            if answer.status_code != 200:
                raise RuntimeError(f"{address} answers {answer.status_code}: {answer.text[:500]}")
            if number:
                took[name].append(1000 * (time.perf_counter() - started))
        say(JOB, f"round {number} of {rounds}" if number else "warm")
    return {name: Spread.of(times) for name, times in took.items()}


def _slowest(found: dict[str, Spread]) -> Iterable[tuple[str, Spread]]:
    return sorted(found.items(), key=lambda one: -one[1].median)


def _show(found: dict[str, Spread], size: Size) -> None:
    rows = [[name, one.text(".0f")] for name, one in _slowest(found)]
    above = sum(one.median > GOAL for one in found.values())
    show(
        f"{size.pages:,} ledger rows and items, {size.tasks:,} tasks: milliseconds of each page",
        ["ms"],
        rows,
        f"{len(found)} pages; {above} of them take more than {GOAL} ms.",
    )


def _panels(found: dict[str, Spread]) -> list[Panel]:
    bars = [Bar(name, {"": one.median}, one.low, one.high) for name, one in _slowest(found)]
    return [Panel("The slowest pages (less is better)", "milliseconds", bars[:20])]


if __name__ == "__main__":
    sys.exit(main())
