"""The setting of Zhao and Liu's experiment (docs/sources.md): pages take 1 s, 24 requests are in
flight, an item takes two requests."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import psycopg2

from benchmarks.lab.counted import CountedSite
from benchmarks.lab.node import Node, migrated
from benchmarks.lab.postgres import Postgres
from benchmarks.lab.redis import RedisServer

LATENCY = 1.0  # seconds
IN_FLIGHT = 24
PUBLISHED = 23.5  # URL/s reported by Zhao and Liu, on 12 cores
IDEAL = IN_FLIGHT / LATENCY  # URL/s
PER_ITEM = 2  # requests
ITEMS = "SELECT (data->>'number')::int, (data->>'price')::numeric FROM crawlservice_item ORDER BY 1"


class Paper(NamedTuple):
    """The result."""

    houses: int
    seconds: float  # from the submission to the end of the task
    steady: float  # URL/s counted by the site, without the first and last tenth
    cpu: float  # seconds of all processes of the node in that time

    @property
    def whole(self) -> float:
        """URL/s over the whole crawl."""
        return self.houses * PER_ITEM / self.seconds


def paper(houses: int, work: Path) -> Paper:
    """Crawls this many houses with one worker, and checks that each is stored once. Raises
    RuntimeError, and what the servers raise when they cannot be started."""
    root = work / "houses"
    _write(root, houses)
    with (
        CountedSite(root, LATENCY) as site,
        Postgres() as postgres,
        RedisServer(work / "paper-redis") as redis,
        Node(
            work / "paper",
            dsn := postgres.new_database(migrated(postgres, work / "paper-migrate")),
            redis.url,
            spiders="benchmarks.latency.spiders",
        ) as node,
    ):
        node.wait_until_known("houses")
        before = node.run.cpu_seconds()
        task = node.submit("houses", site=site.url, houses=houses)
        seconds = node.wait(task, 60 + 2 * houses * PER_ITEM / IDEAL)
        cpu = node.run.cpu_seconds() - before
        node.stop()
        answered = site.take()
        _check(dsn, houses)
    if answered.pages != houses * PER_ITEM:
        raise RuntimeError(f"{answered.pages} pages were fetched for {houses} houses")
    return Paper(houses, seconds, answered.steady(), cpu)


def _write(root: Path, houses: int) -> None:
    for kind in ("listing", "house"):
        (root / kind).mkdir(parents=True)
    for number in range(houses):
        (root / "listing" / f"{number}.html").write_text(
            f'<!DOCTYPE html><title>List {number}</title><a class="house" '
            f'href="/house/{number}.html">House {number}</a>'
        )
        (root / "house" / f"{number}.html").write_text(
            f'<!DOCTYPE html><title>House</title><h1 data-number="{number}">House {number}</h1>'
            f'<span class="amount">{_price(number)}</span> EUR'
        )


def _price(number: int) -> int:
    return 100_000 + 7919 * number % 900_000


def _check(dsn: str, houses: int) -> None:
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(ITEMS)
        if cursor.fetchall() != [(number, _price(number)) for number in range(houses)]:
            raise RuntimeError(f"the {houses} houses are not stored as they should be")
