"""The quality of runs on a real node: a version whose items are bad is refused while it crawls."""

from __future__ import annotations

import pytest

from crawlservice.models import Event, Finding, Item, Task
from crawlservice.tasks.submit import resume
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
    for _ in range(GOOD_RUNS):
        assert look.wait(submit("shop", url=web.url, many=20)).outcome == Task.Outcome.FINISHED
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


def latest_version(task: int) -> str:
    """The code version of its latest item."""
    found = Item.objects.filter(task=task).order_by("-pk").values_list("version", flat=True)
    return found.first() or ""
