"""kill -9 in the middle of a crawl: the same items, one end, and counters right at every moment."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable

import psutil
import pytest

from examples.demo_site import DemoServer
from tests.conftest import Running
from tests.process.conftest import Look, Submit, wait_for

LISTINGS = int(os.environ.get("LISTINGS", "250"))
KILLS = int(os.environ.get("KILLS", "5"))
SEED = int(os.environ.get("SEED", "1"))

pytestmark = pytest.mark.process


@pytest.mark.long  # the simulation kills at each point that matters
@pytest.mark.databases("postgres")
def test_random_kills_change_nothing(
    odd_env: dict[str, str], start_manage: Callable[..., Running], submit: Submit, look: Look
) -> None:
    del odd_env["CRAWLFRAME_SPIDERS"]
    chance = random.Random(SEED)

    def start(name: str) -> Running:
        return start_manage("runcrawler", "--node", name, "--workers", 2, "--concurrency", 16)

    nodes = {name: start(name) for name in ("one", "two")}
    with DemoServer(listings=LISTINGS, latency=15, error_rate=0.01) as demo:
        pk = submit("listings", site=demo.url)
        expected = list(demo.site.expected_items())
        for kill in range(1, KILLS + 1):
            look.wait(pk, lambda task, n=kill: _rows(look, pk) > n * LISTINGS // 8)  # type: ignore[misc]
            name = chance.choice(list(nodes))
            master = psutil.Process(nodes[name].process.pid)
            workers = master.children()
            if chance.random() < 0.4 or not workers:
                master.kill()
                nodes[name].process.wait()
                _, alive = psutil.wait_procs(workers, timeout=5)
                assert not alive, "workers outlive their master"
                nodes[name] = start(name)
            else:
                chance.choice(workers).kill()
        task = look.wait(pk)
    assert task.state == "finished"
    assert sorted(look.items(pk), key=lambda item: item["id"]) == expected
    assert len(look.pages(pk)) == task.na == task.nf
    assert task.ne == 0
    assert look.finishes(pk) == 1


def _rows(look: Look, pk: int) -> int:
    return len(look.pages(pk))


def test_a_dead_node_is_replayed_by_another(
    odd_env: dict[str, str], start_manage: Callable[..., Running], submit: Submit, look: Look, web
) -> None:
    web.pages["/"] = [f"/page/{n}" for n in range(60)]
    web.latency = 0.5
    doomed = start_manage("runcrawler", "--node", "doomed", "--workers", 1)
    pk = submit("odd", url=web.url)
    look.wait(pk, lambda task: look.counts(pk).in_progress > 5)
    doomed.stop(signal.SIGKILL)
    assert look.frontier.counts(pk).in_progress > 5  # type: ignore[union-attr]
    start_manage("runcrawler", "--node", "heir", "--workers", 1)
    task = look.wait(pk)
    assert task.nf == 62
    assert len(look.items(pk)) == 61


@pytest.mark.databases("postgres")
def test_a_stopped_master_finds_itself_fenced_and_starts_over(
    odd_env: dict[str, str], start_manage: Callable[..., Running], submit: Submit, look: Look, web
) -> None:
    web.pages["/"] = [f"/page/{n}" for n in range(200)]
    web.latency = 0.3
    sleeper = start_manage("runcrawler", "--node", "sleeper", "--workers", 1)
    pk = submit("odd", url=web.url)
    start_manage("runcrawler", "--node", "other", "--workers", 1)
    look.wait(pk, lambda task: look.counts(pk).nf > 20)
    sleeper.process.send_signal(signal.SIGSTOP)
    lives = {life.node: life.generation for life in look.frontier.leases.nodes()}
    wait_for(lambda: lives["sleeper"] not in look.frontier.leases.left())
    sleeper.process.send_signal(signal.SIGCONT)
    task = look.wait(pk)
    assert task.nf == 202
    assert len(look.items(pk)) == 201
    sleeper.wait_for("starting as a new one")
    assert sleeper.stop() == 0
