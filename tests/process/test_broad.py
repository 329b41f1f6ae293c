"""The spider for broad crawls on a node: simulated hosts on loopback addresses, traps included."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from benchmarks.politeness.manners import JITTER, by_host, too_close
from benchmarks.politeness.world import ROBOTS
from crawlframe.request.request import ROOT_URL
from crawlservice.models import LogLine, Page
from crawlservice.tasks.submit import submit as submit_task
from spiders.broad import BAD_SEEDS
from tests.broad.hosts import PRIVATE, asks, wanted
from tests.broad.world import World
from tests.conftest import Running
from tests.crawlservice.conftest import redis_at
from tests.process.conftest import Look, wait_for

HOSTS, HOST_PAGES, DELAY, PER_HOST = 16, 12, 0.2, 2

pytestmark = pytest.mark.process


def test_many_hosts_within_their_budgets_and_rules(
    manage_env: dict[str, str],
    start_manage: Callable[..., Running],
    look: Look,
    tmp_path: Path,
) -> None:
    with World(HOSTS, tmp_path / "log", tmp_path / "seeds.txt") as world:
        assert {"sessions", "failing", "calendar"} & {host.kind for host in world.hosts}
        with world.seeds.open("a") as seeds:
            seeds.write("# the end\nno seed\n")
        start_manage("runcrawler", "--workers", 2)
        wait_for(lambda: "broad" in look.frontier.spiders.all())
        with redis_at(manage_env["REDIS_URL"]):
            pk = submit_task(
                "broad",
                {"seeds": str(world.seeds), "text": "fast"},
                settings={
                    "layers": 1, "host_page_limit": HOST_PAGES, "delay": DELAY, "min_delay": 0,
                    "concurrency": PER_HOST, "timeout": 5,
                },
            ).pk  # fmt: skip
        task = look.wait(pk, timeout=120)
        log = world.entries()
    assert (task.state, task.layer) == ("finished", 1)
    by_name = {host.address: host for host in world.hosts}
    items = defaultdict(list)
    for item in look.items(pk):
        items[urlsplit(item["url"]).hostname].append(item)
    assert items.keys() == {host.address for host in world.hosts if wanted(host)}
    for name, some in items.items():
        host = by_name[name]
        assert len(some) <= HOST_PAGES
        assert {item["language"] for item in some} == {host.language}
        denied = "no" if host.robots and host.no_training else None
        assert {(item["usage"] or {}).get("ai-train") for item in some} == {denied}
        assert all(item["title"] and item["text"] and item["links"] for item in some)
    pages = [one for one in log if one.path != ROBOTS]
    assert too_close(pages, {name: max(DELAY, asks(host)) for name, host in by_name.items()}) == []
    for some in by_host(pages).values():
        for place, one in enumerate(some):
            in_flight = sum(other.replied - JITTER > one.arrived for other in some[:place])
            assert in_flight < PER_HOST
    assert not [one for one in pages if one.path.startswith(PRIVATE) and by_name[one.host].robots]
    start = Page.objects.get(task=pk, url__startswith=ROOT_URL)
    assert start.stats == {"counters": {BAD_SEEDS: 1}, "maxima": {}}
    wait_for(lambda: LogLine.objects.filter(task=pk, text__contains=f"line {HOSTS + 2}").exists())
