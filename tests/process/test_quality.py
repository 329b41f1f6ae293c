"""The quality of runs on real nodes: a version whose items are bad is refused while they crawl, and
a verdict is made once, whichever nodes die while it is."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from crawlservice.models import Event, Finding, Item, Profile, Task
from crawlservice.quality.run import decode
from crawlservice.tasks.submit import resume
from tests.conftest import Running
from tests.crawlservice.conftest import redis_at
from tests.process.conftest import Look, OddWeb, Submit, wait_for
from tests.process.test_rollout import Start, alpha, author, remote, start_node, version_of
from tests.repository import Repository

__all__ = ("alpha", "author", "remote", "start_node")
pytestmark = pytest.mark.process

SHOP = """
from crawlframe import Expect, Request, Spider


class Shop(Spider):
    name = "shop"
    settings = {"concurrency": 4, "delay": 0}
    expect = Expect(action="refuse")

    def start(self, url: str, many: int):
        for number in range(many):
            yield Request(f"{url}page/{number}")

    def parse(self, response):
        yield {"url": response.url, "price": 9.5}
"""
WORSE = SHOP.replace('"price": 9.5', '"price": None')
GOOD_RUNS = 3


def good_runs(submit: Submit, look: Look, spider: str, **arguments: object) -> None:
    for _ in range(GOOD_RUNS):
        assert look.wait(submit(spider, **arguments)).outcome == Task.Outcome.FINISHED


def test_a_version_whose_items_are_worse_is_refused_and_the_old_one_goes_on(
    start_node: Start,
    author: Repository,
    alpha: Repository,
    look: Look,
    submit: Submit,
    web: OddWeb,
    odd_env: dict[str, str],
) -> None:
    old = author.commit({"spiders/shop.py": SHOP})
    node = start_node("alpha", alpha, "--follow-every", "0.5")
    wait_for(lambda: version_of(look, "alpha") == old[:12])
    good_runs(submit, look, "shop", url=web.url, many=20)
    web.latency = 0.05
    task = submit("shop", url=web.url, many=400)
    look.wait(task, lambda _: look.counts(task).nf > 30)

    web.latency = 1.0  # on the busiest machine, too, the new version runs most of it
    new = author.commit({"spiders/shop.py": WORSE})
    wait_for(lambda: new[:12] in (version_of(look, "alpha"), latest_version(task)))
    web.latency = 0.05
    look.wait(task, lambda task: task.state == Task.State.PAUSED)
    wait_for(lambda: version_of(look, "alpha") == old[:12])
    assert alpha.head == old
    finding = Finding.objects.get(task=task, monitor="filled", field="price")
    assert (finding.version, finding.good_version) == (new[:12], old[:12])
    assert Event.objects.filter(task=task, kind="quality_failed").count() == 1
    assert f"alpha of main go back to {old[:12]}" in node.output

    with redis_at(odd_env["REDIS_URL"]):
        resume(task)
    ended = look.wait(task)
    assert ended.outcome == Task.Outcome.FINISHED_WITH_ERRORS
    # The items of the refused version stay as they are, and all others are good.
    items = Item.objects.filter(task=task)
    assert items.count() == 400
    made = {(version, data["price"]) for version, data in items.values_list("version", "data")}
    assert made == {(old[:12], 9.5), (new[:12], None)}
    latest = items.order_by("-pk").values_list("version", flat=True)[:100]
    assert {*latest} == {old[:12]}
    assert version_of(look, "alpha") == old[:12]


def test_a_verdict_is_made_once_whoever_is_killed_meanwhile(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    look: Look,
    submit: Submit,
    web: OddWeb,
) -> None:
    """The leading node is killed while it judges runs; an undisturbed run has the right verdict."""
    names = iter(range(100))

    def start() -> Running:
        return start_manage("runcrawler", "--node", f"node{next(names)}", "--workers", 2)

    def kill_leader() -> None:
        leader = nodes.pop(0)  # the others have waited for its lock
        leader.process.send_signal(signal.SIGKILL)
        leader.process.wait()
        nodes.append(start())

    pages = 80
    web.pages = {f"/{page}": ["/9.50"] for page in range(pages)}
    nodes = [start()]
    wait_for(lambda: len(look.frontier.leases.nodes()) == 1)
    nodes.append(start())
    wait_for(lambda: len(look.frontier.leases.nodes()) == 2)
    arguments: dict[str, Any] = {"url": web.url, "pages": pages}
    good_runs(submit, look, "prices", **arguments)
    wait_for(lambda: not Profile.objects.filter(judged=False).exists())

    web.pages = {f"/{page}": [] for page in range(pages)}  # the site changes
    undisturbed = submit("prices", **arguments)
    look.wait(undisturbed)
    wait_for(lambda: Profile.objects.filter(task=undisturbed, judged=True).exists())

    web.latency = 0.3
    task = submit("prices", **arguments)
    begun = Profile.objects.filter(task=task, last_item__gt=0, judged=False)
    look.wait(task, lambda task: begun.exists() or task.state not in Task.ACTIVE)
    kill_leader()
    web.latency = 0
    look.wait(task)
    if begun.exists():
        kill_leader()
    wait_for(lambda: Profile.objects.filter(task=task, judged=True).exists())

    assert verdict(task) == verdict(undisturbed)
    content = decode(Profile.objects.get(task=task).content).content()
    assert (content.items, content.pages) == (50 * pages, pages)
    kinds = [*Event.objects.filter(task=task).values_list("kind", flat=True)]
    assert sorted(kinds) == ["finished", "quality_failed"]


def latest_version(task: int) -> str:
    """The code version of its latest item."""
    found = Item.objects.filter(task=task).order_by("-pk").values_list("version", flat=True)
    return found.first() or ""


def verdict(task: int) -> tuple[str, str, list[tuple[Any, ...]]]:
    """The outcome, the reason, and all findings."""
    row = Task.objects.get(pk=task)
    columns = ("source", "monitor", "field", "subject", "unit", "low", "high", "usual", "seen")
    findings = Finding.objects.filter(task=task).order_by(*columns[:4])
    return row.outcome, row.reason, [*findings.values_list(*columns, "runs", "told")]
