"""A Scrapy project whose code is pulled all the time, and workers that are killed: every item is
there once, made by one whole version. The long one: ``pytest -m long
tests/process/test_scrapy_reload_kills.py -s``: a pull every 3 s, and 20 kills."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from examples.demo_site import DemoServer
from tests.conftest import Running
from tests.process.conftest import Look
from tests.process.growing_crawl import GrowingCrawl
from tests.process.growing_scrapy import sources

KINDS = ("change", "change", "comment", "change", "broken", "change")  # a broken one is no version
LONG_KILLS, SHORT_KILLS = 20, 4
SEED = int(os.environ.get("SEED", "1"))

pytestmark = [pytest.mark.process, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("nodes", "kills", "every", "listings"),
    [
        (["one"], SHORT_KILLS, 1.5, 60),
        (["one", "two"], LONG_KILLS, 3.0, 800),
    ],
)
def test_a_scrapy_project_is_pulled_while_workers_are_killed(
    nodes: list[str],
    kills: int,
    every: float,
    listings: int,
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    look: Look,
    redis_url: str,
    tmp_path: Path,
) -> None:
    chance, began = random.Random(SEED), time.monotonic()
    with (
        DemoServer(listings=listings, latency=40, error_rate=0.01) as demo,
        GrowingCrawl(demo, look, start_manage, odd_env, tmp_path, sources) as crawl,
    ):
        for name in nodes:
            crawl.start(name, "--reload")
        crawl.submit(redis_url, 2)
        crawl.advance(0.02)
        for step in range(kills):
            until, share = time.monotonic() + every, (step + 1) / (kills + 2)
            label = crawl.author.commit(KINDS[step % len(KINDS)])
            for name in nodes:
                crawl.pull(name)
            kill_at = until - chance.uniform(0, 1) * every
            while (now := time.monotonic()) < until or kill_at:
                if kill_at and now >= kill_at and kill_worker(crawl, chance.choice(nodes), chance):
                    kill_at = 0.0
                crawl.hold(share)
                time.sleep(0.05)
            if step % 2:  # of the others, the next change comes while they are loaded
                for name in nodes:
                    crawl.judged(name, label, before=share)
                crawl.advance(share + 0.5 / (kills + 2))
        crawl.hold(1.0)
        crawl.end()
        rows = crawl.versions()
        assert len(rows) > 2, "there was nothing to reload"
        print(
            f"\nseed {SEED}: {kills} pulls, {kills} workers killed, {len(rows)} versions on "
            f"{sum(rows.values())} rows, {crawl.mixed()} items of two versions' pages, "
            f"{crawl.fetched_again()} fetches again, {time.monotonic() - began:.0f} s"
        )


def kill_worker(crawl: GrowingCrawl, node: str, chance: random.Random) -> bool:
    """Kills a child of the node's master, mostly a worker; returns whether there was one."""
    victims = crawl.children(node)
    try:
        chance.choice(victims).kill()
    except (IndexError, psutil.NoSuchProcess):
        return False
    return True
