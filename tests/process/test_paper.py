"""The experiment of Zhao and Liu (docs/sources.md), hardened: two nodes crawl while the code of one
of them changes all the time. The long one: ``SEED=2 RELOADS=50 LISTINGS=2500 pytest -n0 -s
-m process tests/process/test_paper.py``, on both databases."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from examples.demo_site import DemoServer
from tests.conftest import Running
from tests.process.conftest import LONGEST_WAIT, Look
from tests.process.growing_crawl import GrowingCrawl
from tests.process.growing_spider import kinds

SEED = int(os.environ.get("SEED", "1"))
RELOADS = int(os.environ.get("RELOADS", "7"))
LISTINGS = int(os.environ.get("LISTINGS", "130"))
TASKS = 4

pytestmark = [pytest.mark.process, pytest.mark.timeout(3 * LONGEST_WAIT + 20 * RELOADS)]


@pytest.mark.parametrize(
    "database",
    ["sqlite", pytest.param("postgres", marks=[pytest.mark.postgres, pytest.mark.long])],
    indirect=True,
)
def test_commits_and_pulls_during_the_whole_crawl_change_nothing(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    look: Look,
    redis_url: str,
    tmp_path: Path,
) -> None:
    """Node ``one`` pulls, node ``two`` keeps the first version. Requests that need newer code are
    parked by ``two`` and taken by ``one``; requests that ``one`` can no longer run are taken by
    ``two``, or by a later version with the callback."""
    started = time.monotonic()
    chance = random.Random(SEED)
    with (
        DemoServer(listings=LISTINGS, seed=SEED, latency=60) as demo,
        GrowingCrawl(demo, look, start_manage, odd_env, tmp_path) as crawl,
    ):
        crawl.start("one", "--reload")
        crawl.start("two", "--reload")
        crawl.submit(redis_url, TASKS)
        plan = [*kinds(RELOADS)]
        for step, kind in enumerate(plan, 1):
            crawl.advance((step + chance.uniform(0, 0.5)) / (len(plan) + 2))
            label = crawl.author.commit(kind)
            crawl.pull("one")
            judgement = crawl.judged("one", label, before=(step + 0.7) / (len(plan) + 2))
            assert judgement == ("refused" if kind == "broken" else "live")
        crawl.finish()
        crawl.check()
        rows = crawl.versions()
        again = crawl.fetched_again()
        assert crawl.code("one").reloads == RELOADS
        assert crawl.code("two").reloads == 0
        for node in crawl.nodes.values():
            assert node.stop() == 0
        assert crawl.left() == []

        # Versions of both nodes worked, and requests of the old code and the new were in one queue.
        assert len(rows) > RELOADS * 2 // 3
        assert crawl.old_after_new() > 0
        assert crawl.mixed() > 0
        assert crawl.handed_over() > 0
        # A graceful reload fetches nothing twice.
        assert again == 0
        print(
            f"\nseed {SEED}: {RELOADS} reloads, {plan.count('broken')} refused, "
            f"{len(rows)} versions on {sum(rows.values())} rows, "
            f"{crawl.mixed()} items of two versions' pages, up to {crawl.most_parked} parked, "
            f"{again} pages fetched twice, "
            f"{time.monotonic() - started:.0f} s"
        )
