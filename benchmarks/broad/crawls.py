"""Crawls: one contender crawls the simulated hosts for some time, and is measured."""

from __future__ import annotations

import os
import shutil
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from benchmarks.broad.verdicts import Findings, Terms, curve, judge
from benchmarks.broad.world import World
from benchmarks.lab import results, venv
from benchmarks.lab.meter import Metered, Usage
from benchmarks.lab.node import Node, migrated
from benchmarks.lab.postgres import Postgres
from benchmarks.lab.redis import RedisServer

CONTENDERS = Path(__file__).with_name("contenders")
STANDARD = CONTENDERS.parents[1] / "standard" / "contenders"  # has their requirements
OWN = ("PYTHON", "SCRAPY_")  # variables of the caller's shell that may affect a contender
START_TIMEOUT = 60.0  # seconds until the first request
CURVE = 5.0  # seconds over which a rate is averaged
LOOK_EVERY = 0.1  # seconds


class Entry(NamedTuple):
    """One line of the table."""

    name: str
    label: str
    folder: str = ""  # whose environment it needs; "" stands for Crawlframe
    processes: int = 1
    in_flight: int = 0  # requests in all; 0 means one for each host
    text: str = "none"  # the argument of our spider


ENTRIES = (
    Entry("crawlframe", "Crawlframe, 1 worker"),
    Entry("crawlframe-2", "Crawlframe, 2 workers", processes=2),
    Entry("crawlframe-text", "Crawlframe, 2 workers, with texts", processes=2, text="article"),
    Entry("scrapy-100", "Scrapy, 100 in flight", "scrapy", in_flight=100),
    Entry("scrapy", "Scrapy, as many as hosts", "scrapy"),
    Entry("scrapy-redis", "scrapy-redis, 1 process", "scrapy_redis"),
    Entry("scrapy-redis-2", "scrapy-redis, 2 processes", "scrapy_redis", processes=2),
)
NAMES = [entry.name for entry in ENTRIES]


class Crawled(NamedTuple):
    """What one crawl came to. Sizes in bytes."""

    entry: Entry
    found: Findings
    usage: Usage
    redis: int  # what the server has allocated; 0 if it was not used
    rates: list[tuple[float, float]]  # new pages per second over the time


def crawl(entry: Entry, hosts: int, terms: Terms, work: Path) -> Crawled:
    """Raises RuntimeError when the crawler cannot be started, or ends before its time."""
    place = work / entry.name
    place.mkdir()
    with ExitStack() as stack:
        world = stack.enter_context(World(hosts, place / "log", place / "seeds.txt"))
        redis = None
        if entry.folder != "scrapy":
            redis = stack.enter_context(RedisServer(place / "redis"))
        if entry.folder:
            usage, used = _theirs(entry, world, terms, place, redis)
        else:
            assert redis is not None
            usage, used = _ours(entry, world, terms, place, redis)
        log = world.entries()
    results.PLACE.mkdir(parents=True, exist_ok=True)
    shutil.copy(place / "log", results.PLACE / f"broad-{entry.name}.log")
    found = judge(world.hosts, log, terms)
    return Crawled(entry, found, usage, used, curve(log, terms.seconds, CURVE))


def _ours(
    entry: Entry, world: World, terms: Terms, work: Path, redis: RedisServer
) -> tuple[Usage, int]:
    settings = {
        "layers": 0,  # the others have none
        "host_page_limit": 0,
        "host_byte_limit": 0,
        "delay": terms.delay,
        "min_delay": 0,
        "concurrency": terms.per_host,
        "timeout": 15,
        "retries": 0,
        "traps": "report",
    }
    with Postgres() as postgres:
        dsn = migrated(postgres, work / "tables")
        node = Node(
            work / "node", dsn, redis.url, workers=entry.processes,
            concurrency=_in_flight(entry, world) // entry.processes,
        )  # fmt: skip
        with node:
            node.submit("broad", settings, seeds=world.seeds, text=entry.text)
            _wait(node.run, world, terms)
            used = redis.client.info("memory")["used_memory"]
            return node.stop(), used


def _theirs(
    entry: Entry, world: World, terms: Terms, work: Path, redis: RedisServer | None
) -> tuple[Usage, int]:
    options: dict[str, object] = {
        "--seeds": world.seeds,
        "--items": work / "items",
        "--delay": terms.delay,
        "--per-host": terms.per_host,
        "--in-flight": _in_flight(entry, world) // entry.processes,
        "--processes": entry.processes,
    }
    if redis is not None:
        options["--redis"] = redis.url
    python = venv.environment(entry.folder, STANDARD / entry.folder / "requirements.txt")
    words = [str(word) for pair in options.items() for word in pair]
    command = [str(python), str(CONTENDERS / "with_scrapy.py"), *words]
    env = {name: value for name, value in os.environ.items() if not name.startswith(OWN)}
    env["PYTHONUNBUFFERED"] = "1"
    with Metered(command, work / "crawler.log", cwd=work, env=env) as run:
        _wait(run, world, terms)
        used = 0 if redis is None else redis.client.info("memory")["used_memory"]
        run.send(signal.SIGTERM)
        return run.wait(START_TIMEOUT), used


def _in_flight(entry: Entry, world: World) -> int:
    return entry.in_flight or max(len(world.hosts), entry.processes)


def _wait(run: Metered, world: World, terms: Terms) -> None:
    """Until the time of the crawl is over, which begins with its first request."""
    deadline = time.monotonic() + START_TIMEOUT
    while not world.asked():
        if not run.lives():
            raise run.problem("ended at its start")
        if time.monotonic() > deadline:
            raise run.problem("asked for nothing")
        time.sleep(LOOK_EVERY)
    deadline = time.monotonic() + terms.seconds
    while time.monotonic() < deadline and run.lives():
        time.sleep(LOOK_EVERY)
