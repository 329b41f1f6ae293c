"""kill -9 while code is reloaded: of workers, templates, stewards and masters, and now and then of
a supervisor. Long: ``SEED=2 KILLS=60 RELOADS=50 LISTINGS=2000 pytest -m process
tests/process/test_reload_kills.py -s``, on both databases."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from examples.demo_site import DemoServer
from tests.conftest import Running
from tests.process.conftest import LONGEST_WAIT, Look
from tests.process.growing_crawl import GrowingCrawl
from tests.process.growing_spider import kinds

SEED = int(os.environ.get("SEED", "1"))
KILLS = int(os.environ.get("KILLS", "6"))
RELOADS = int(os.environ.get("RELOADS", "6"))
LISTINGS = int(os.environ.get("LISTINGS", "110"))
TASKS = 3
NODES = ("one", "two")

pytestmark = [
    pytest.mark.process,
    pytest.mark.long,
    pytest.mark.timeout(3 * LONGEST_WAIT + 20 * RELOADS + 10 * KILLS),
]


@pytest.mark.databases("sqlite", "postgres")
def test_kills_during_reloads_change_nothing(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    look: Look,
    redis_url: str,
    tmp_path: Path,
) -> None:
    """Kills and reloads come in random order, also before the node has judged the change. At the
    end both nodes have the last version, which can run whatever is queued."""
    started = time.monotonic()
    chance = random.Random(SEED)
    killed: Counter[str] = Counter()
    events = [*[*kinds(RELOADS)][:-1], *["kill"] * KILLS]
    chance.shuffle(events)
    with (
        DemoServer(listings=LISTINGS, latency=80, error_rate=0.01) as demo,
        GrowingCrawl(demo, look, start_manage, odd_env, tmp_path) as crawl,
    ):
        for name in NODES:
            crawl.start(name, "--reload")
        crawl.submit(redis_url, TASKS)
        for step, event in enumerate(events, 1):
            crawl.advance(step / (len(events) + 2))
            if event == "kill":
                killed[kill(crawl, chance)] += 1
                continue
            label = crawl.author.commit(event)
            pulling = chance.sample(NODES, chance.randint(1, 2))
            for name in pulling:
                crawl.pull(name)
            if chance.random() < 0.4:  # the next change comes in the middle of the reload
                time.sleep(chance.uniform(0, 0.6))
                continue
            for name in pulling:
                crawl.judged(name, label, before=(step + 0.5) / (len(events) + 2))
        crawl.end()
        rows, again = crawl.versions(), crawl.fetched_again()
        print(
            f"\nseed {SEED}: {RELOADS} good versions, {dict(killed)} killed, {len(rows)} versions "
            f"on {sum(rows.values())} rows, {crawl.mixed()} items of two versions' pages, up to "
            f"{crawl.most_parked} parked, {again} fetches again, "
            f"{time.monotonic() - started:.0f} s"
        )


def kill(crawl: GrowingCrawl, chance: random.Random) -> str:
    """Kills one process of one node; returns its role."""
    name = chance.choice(NODES)
    role = chance.choices(("supervisor", "master", "children"), (1, 3, 8))[0]
    if role == "supervisor":
        # Its master stops gracefully, and makes room for the next supervisor's.
        crawl.nodes[name].process.kill()
        crawl.nodes[name].process.wait()
        crawl.start(name, "--reload")
        return role
    while True:
        try:
            kill_one(crawl.masters(name) if role == "master" else crawl.children(name), chance)
            return role
        except (IndexError, psutil.NoSuchProcess):
            time.sleep(0.02)  # the earlier processes have ended, and the next are not there yet


def kill_one(victims: list[psutil.Process], chance: random.Random) -> None:
    """Checks that no process that it started outlives it."""
    victim = chance.choice(victims)
    children = victim.children()
    victim.kill()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive, f"children outlive their parent: {alive}"
