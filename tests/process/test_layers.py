"""Layers: by the server's log, no request of a layer comes before the last response of the layer
before, whatever dies meanwhile."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest
from django.conf import settings as django_settings

from crawlframe.conf import Settings
from crawlservice.models import Task
from crawlservice.tasks.progress import layers
from crawlservice.tasks.progress.progress import read
from crawlservice.tasks.submit import submit as submit_task
from tests.conftest import Running
from tests.crawlservice.conftest import redis_at
from tests.process.conftest import Look, wait_for

SEED = int(os.environ.get("SEED", "1"))
KILLS = int(os.environ.get("KILLS", "4"))
LAYERS = 3
PARTITIONS = 3
WIDTH = 12  # pages of layer 1; each further layer has twice as many
SLOW = 1.5  # seconds: the last response of each layer, so that kills come before it

pytestmark = pytest.mark.process


def build(web: Any, slow: float = SLOW) -> int:
    """Returns the number of pages that are fetched. Pages of layer 4 are linked to, and refused."""
    web.latency = 0.05
    here = ["/0-0"]
    total = len(here)
    for depth in range(LAYERS + 1):
        size = WIDTH * 2**depth
        links = [f"/{depth + 1}-{n}" for n in range(size)]
        for n, link in enumerate(links):
            web.pages.setdefault(here[n % len(here)], []).append(link)
        web.delays[here[-1]] = slow
        here = links
        total += size if depth < LAYERS else 0
    return total


def layer_of(path: str) -> int:
    return int(path[1:].partition("-")[0])


def check_order(web: Any) -> None:
    """A node that was killed may have left a page half done, which is fetched again."""
    last: dict[str, float] = {}
    first: dict[int, float] = {}
    for path, asked, answered in sorted(web.log, key=lambda one: one[1]):
        last[path] = answered
        first.setdefault(layer_of(path), asked)
    assert sorted(first) == [*range(LAYERS + 1)]
    for path, answered in last.items():
        later = first.get(layer_of(path) + 1)
        assert later is None or answered <= later, f"{path} was answered after its layer"


def start_task(look: Look, env: dict[str, str], url: str, **settings: Any) -> int:
    wait_for(lambda: "odd" in look.frontier.spiders.all())
    with redis_at(env["REDIS_URL"]):
        settings = {"layers": LAYERS, "retries": 5, **settings}
        return submit_task("odd", {"url": f"{url}0-0"}, settings=settings).pk


@pytest.mark.databases("postgres")
def test_kills_do_not_break_the_barrier(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    web: Any,
    redis_url: str,
    orm: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = Settings(partitions=PARTITIONS)
    monkeypatch.setattr(django_settings, "CRAWLFRAME", shared)
    odd_env["CRAWLFRAME_PARTITIONS"] = str(PARTITIONS)
    total = build(web)
    chance = random.Random(SEED)

    def start(name: str) -> Running:
        return start_manage("runcrawler", "--node", name, "--workers", 1, "--concurrency", 8)

    nodes = {name: start(name) for name in ("one", "two")}
    look = Look(redis_url, shared)
    pk = start_task(look, odd_env, web.url)
    for _ in range(KILLS):
        time.sleep(chance.uniform(0.3, 2.5))
        if look.task(pk).state not in Task.ACTIVE:
            break
        name = chance.choice(list(nodes))
        master = psutil.Process(nodes[name].process.pid)
        workers = master.children()
        if chance.random() < 0.7 or not workers:
            master.kill()
            nodes[name].process.wait()
            nodes[name] = start(name)
        else:
            chance.choice(workers).kill()
    task = look.wait(pk, timeout=180)
    check_order(web)
    assert (task.state, task.layer) == ("finished", LAYERS)
    assert task.na == task.nf == total + 1  # and the run of start
    with redis_at(odd_env["REDIS_URL"]):
        found = layers.of_task(read([task])[0])
    sizes = [WIDTH * 2**depth for depth in range(LAYERS)]
    assert [one.pages for one in found] == [2, *sizes]
    assert [one.found for one in found] == [*sizes, 0]
    assert [one.state for one in found] == ["done"] * (LAYERS + 1)
