"""A start that yields much: recorded as it goes, and continued whatever dies."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from crawlservice.ledger.audit import audit
from crawlservice.models import Page, StartPart, Task
from crawlservice.tasks.submit import cancel
from tests.conftest import Running
from tests.crawlservice.conftest import redis_at
from tests.process.conftest import LONGEST_WAIT, Look, Submit, wait_for
from tests.process.reload_project import NodeStarter, Project

pytestmark = pytest.mark.process

PAGES = 2_000
MANY = 3_000  # six parts at least
SLOW = 800  # pages of a start that takes seconds
PAUSE = 100  # milliseconds per hundred requests


def check(look: Look, pk: int, pages: int = PAGES) -> None:
    task = look.wait(pk)
    assert (task.state, task.na, task.nf, task.ne) == ("finished", pages + 1, pages + 1, 0)
    assert sorted(item["n"] for item in look.items(pk)) == [*range(-1, pages)]
    assert look.finishes(pk) == 1
    assert look.frontier.audit() == audit(task) == []


def parts(pk: int) -> int:
    return StartPart.objects.filter(task=pk).count()


# Each strikes once, one after another.
FAULTS = [
    "start.part.after:1:kill", "start.part.before:2:kill", "start.part.before:2:error",
    "start.part.after:2:error", "push.after:1:error", "push.before:2:kill", "push.after:2:kill",
    "commit.after:1:kill", "complete.before:1:kill",
]  # fmt: skip


@pytest.mark.databases("postgres")
def test_death_at_any_step(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    submit: Submit,
    look: Look,
    tmp_path: Path,
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    odd_env |= {"FAULT": ",".join(FAULTS), "FAULT_MARKS": str(marks)}
    odd_env["CRAWLFRAME_GRACE"] = str(2 * LONGEST_WAIT)
    node = start_manage("runcrawler", "--node", "one", "--workers", 2, "--concurrency", 16)
    pk = submit("flood", pages=MANY)
    check(look, pk, MANY)
    assert {mark.name for mark in marks.iterdir()} == {fault.replace(":", "_") for fault in FAULTS}
    assert parts(pk) >= MANY // 500

    # A node that stops leaves the start to another.
    pk = submit("flood", pages=SLOW, pause=5 * PAUSE)
    wait_for(lambda: parts(pk) >= 2)
    node.process.send_signal(signal.SIGTERM)
    assert (
        node.process.wait(LONGEST_WAIT) == 0
    )  # less than the grace: it does not wait for the end of start
    assert not Page.objects.filter(task=pk, url="start:").exists()
    start_manage("runcrawler", "--node", "two", "--workers", 1)
    check(look, pk, SLOW)


def test_a_start_is_never_far_ahead_and_can_be_cancelled(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    submit: Submit,
    look: Look,
    redis_url: str,
) -> None:
    odd_env["CRAWLFRAME_START_AHEAD"] = "700"
    start_manage("runcrawler", "--node", "one", "--workers", 2, "--concurrency", 4)
    pk = submit("slow_flood", pages=10_000_000)
    wait_for(lambda: parts(pk) >= 2)
    most = 0

    def some_done(task: Task) -> bool:
        nonlocal most
        counts = look.counts(pk)
        most = max(most, counts.ready)
        return counts.nf > 900

    look.wait(pk, some_done)
    assert 200 < most <= 700 + 500
    with redis_at(redis_url):
        cancel(pk)
    task = look.wait(pk)
    assert (task.state, task.ne) == ("cancelled", task.cancelled)
    # A part has 500 requests, or the requests of its time.
    assert task.na == len(look.pages(pk)) <= 1 + 500 * parts(pk)
    assert audit(task) == []


FLOOD = """\
import time
from crawlframe import Request, Response, Spider

CODE = "{code}"


class NoFetch:
    async def fetch(self, request, call_next):
        return Response(request.url, 200, {{}}, b"", request)


class Shop(Spider):
    name = "shop"
    settings = {{"concurrency": 64, "delay": 0, "robots": False}}
    middlewares = [NoFetch]

    def start(self, url: str):
        for n in range({pages}):
            yield Request(f"http://h{{n % 3}}.example/{{n}}")
            if n % 100 == 0:
                time.sleep(0.3)  # seconds in all, so that the reload comes before its end

    def parse(self, response):
        yield {{"n": int(response.url.rpartition("/")[2]), "code": CODE}}
"""


def test_a_new_version_continues_the_start_of_the_old_one(
    odd_env: dict[str, str], starter: NodeStarter, look: Look, tmp_path: Path
) -> None:
    project = Project.make(tmp_path / "project")
    project.write("shops/shop.py", FLOOD.format(code="first", pages=PAGES))
    project.commit()
    odd_env["CRAWLFRAME_GRACE"] = "20"
    node = starter.node(project.env(odd_env))
    pk = node.start("any")
    Task.objects.filter(pk=pk).update(
        settings={"delay": 0, "concurrency": 64, "robots": False}, arguments={"url": "any"}
    )
    wait_for(lambda: parts(pk) >= 2)
    project.write("shops/shop.py", FLOOD.format(code="second", pages=PAGES))
    project.commit()
    version = node.renewed(1).version
    task = look.wait(pk)
    assert (task.state, task.na, task.nf) == ("finished", PAGES + 1, PAGES + 1)
    assert sorted(item["n"] for item in look.items(pk)) == [*range(PAGES)]
    assert {item["code"] for item in look.items(pk)} == {"first", "second"}
    assert look.pages(pk)["start:"].version == version
    assert audit(task) == []
