"""Layers of a task: steps from one to the next, losses, retries, and counts per layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from rich.console import Console

from crawlframe.base import faults
from crawlframe.base.program import command
from crawlframe.conf import Settings
from crawlframe.errors import ArgumentError
from crawlframe.frontier import Claimed, Completion, Frontier
from crawlframe.request import record
from crawlframe.request.request import Admission, make_rid, pack_admissions, rank_of
from crawlservice.cli.task.report import report
from crawlservice.ledger.recovery import renew
from crawlservice.models import Era, Page, Task, TaskLayer
from crawlservice.steward.steward import Steward
from crawlservice.tasks.progress import layers
from crawlservice.tasks.progress.progress import read
from crawlservice.tasks.retry import retry
from crawlservice.tasks.stored_limits import limits_of
from crawlservice.tasks.submit import cancel, get_task, pause, resume, submit
from tests.crawlservice.programs import person, program

pytestmark = pytest.mark.usefixtures("few_chores")
both = pytest.mark.databases("sqlite", "postgres")
NODE = 1


class Crawl:
    """A task of layers, whose requests are run here. Pages are named by the path of their URL."""

    def __init__(self, frontier: Frontier, **settings: Any) -> None:
        renew(frontier)
        self.frontier = frontier
        self.task = submit(
            "shop", {"city": "Ulm"}, settings={"layers": 2, "delay": 0, **settings}
        ).pk
        self.steward = Steward(Settings(), frontier)
        self.sequence = 0
        self.held: list[Claimed] = []

    def admission(self, url: str, depth: int) -> Admission:
        host = url.split("/")[2]
        row = record.write(url, "parse", depth, {})
        return Admission(make_rid(self.task, url.encode()), rank_of(0, 0, depth), host, 0, row)

    def claim(self) -> list[str]:
        """The URLs of the claimed requests."""
        for _ in range(20):
            self.sequence += 1
            self.held += self.frontier.claim(NODE, self.sequence, 500).requests
        return sorted(record.read_head(one.record).url for one in self.held)

    def end(self, links: dict[str, list[str]], *, failed: tuple[str, ...] = ()) -> None:
        """Ends all held requests. ``links``: URL -> its follow-ups."""
        for one in self.held:
            head = record.read_head(one.record)
            url, depth = head.url, head.depth
            start = url == "start:"
            found = [self.admission(to, 0 if start else depth + 1) for to in links.get(url, [])]
            Page.objects.create(
                rid=UUID(bytes=one.rid), task_id=self.task, url=url, callback="parse",
                state="error" if url in failed else "done",
                reason="http" if url in failed else "", depth=depth, attempts=0,
                deliveries=0, size=1, fetch_ms=1, items=0,
                follow_ups=pack_admissions(found) if found else None, request=one.record,
            )  # fmt: skip
            done = Completion(one.rid, self.task, one.host, url in failed, found)
            self.frontier.complete([done])
        self.held = []

    def run(self, links: dict[str, list[str]], **options: Any) -> list[str]:
        claimed = self.claim()
        self.end(links, **options)
        return claimed

    @property
    def row(self) -> Task:
        return get_task(self.task)

    def table(self) -> list[tuple[Any, ...]]:
        """number, state, pages, errors, found, left of each layer."""
        found = layers.of_task(read([self.row])[0])
        return [(x.number, x.state, x.pages, x.errors, x.found, x.left) for x in found]


A, B, C, D = (f"http://{name}.example/" for name in "abcd")
LINKS = {"start:": [A, B], A: [C], B: [C, D], C: ["http://c.example/2"]}


@pytest.fixture
def crawl(published: Frontier) -> Crawl:
    return Crawl(published)


@both
def test_a_layer_begins_when_the_one_before_is_done(crawl: Crawl) -> None:
    assert limits_of(crawl.row).layers == 2
    assert crawl.run(LINKS) == ["start:"]
    claimed = crawl.claim()
    assert claimed == [A, B]
    last = crawl.held.pop()
    crawl.end(LINKS)
    crawl.steward.tick()
    assert (crawl.claim(), crawl.row.layer) == ([], 0)
    crawl.held = [last]
    crawl.end(LINKS)
    assert crawl.claim() == []
    assert crawl.table() == [(0, "present", 3, 0, 2, 0), (1, "waiting", 0, 0, None, 2)]
    crawl.steward.tick()
    assert crawl.row.layer == 1
    assert crawl.run(LINKS, failed=(D,)) == [C, D]
    crawl.steward.tick()
    assert crawl.table() == [
        (0, "done", 3, 0, 2, 0), (1, "done", 1, 1, 1, 0), (2, "present", 0, 0, 0, 1)
    ]  # fmt: skip
    crawl.run(LINKS)
    crawl.steward.tick()
    assert (crawl.row.state, crawl.row.layer) == ("finished", 2)
    assert crawl.table()[2] == (2, "done", 1, 0, 0, 0)
    assert TaskLayer.objects.count() == 2


def test_by_hand(published: Frontier) -> None:
    crawl = Crawl(published, pause_layers=True)
    crawl.run(LINKS)
    crawl.run(LINKS)
    crawl.steward.tick()
    assert (crawl.row.layer, crawl.row.state) == (1, "paused")
    crawl.steward.tick()
    assert crawl.claim() == []
    resume(crawl.task)
    assert crawl.run(LINKS) == [C, D]
    crawl.steward.tick()
    assert (crawl.row.layer, crawl.row.state) == (2, "paused")
    cancel(crawl.task)
    crawl.steward.tick()
    assert crawl.row.state == "cancelled"


def test_a_layer_that_ends_while_its_task_is_paused(crawl: Crawl) -> None:
    crawl.run(LINKS)
    crawl.claim()
    pause(crawl.task)
    crawl.end(LINKS)
    crawl.steward.tick()
    assert (crawl.row.layer, crawl.row.state, crawl.claim()) == (1, "paused", [])
    resume(crawl.task)
    assert crawl.claim() == [C, D]


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_steward_that_dies_after_the_transaction(
    published: Frontier, monkeypatch: pytest.MonkeyPatch, by_hand: bool
) -> None:
    crawl = Crawl(published, pause_layers=by_hand)
    crawl.run(LINKS)
    crawl.run(LINKS)

    def die(where: str, *_: Any) -> None:
        if where == "layers.recorded":
            raise SystemExit

    monkeypatch.setattr(faults, "at", die)
    with pytest.raises(SystemExit):
        crawl.steward.tick()
    assert (crawl.row.layer, crawl.claim()) == (1, [])
    monkeypatch.undo()
    crawl.steward.tick()
    assert crawl.claim() == ([] if by_hand else [C, D])
    assert published.audit() == []


def test_redis_loses_everything(crawl: Crawl, published: Frontier) -> None:
    """The row says at which layer the task is."""
    crawl.run(LINKS)
    crawl.run(LINKS)
    crawl.steward.tick()
    crawl.claim()
    crawl.held = crawl.held[:1]
    crawl.end(LINKS)
    published.store.redis.flushdb()
    renew(published)
    crawl.sequence = 0
    assert len(crawl.run(LINKS)) == 1
    assert crawl.claim() == []
    crawl.steward.tick()
    assert crawl.row.layer == 2
    assert crawl.claim() == ["http://c.example/2"]


def test_redis_loses_a_request_of_the_layer(crawl: Crawl, published: Frontier) -> None:
    """Redis agrees with itself, but not with the ledger: the lost request comes back first."""
    crawl.run(LINKS)
    crawl.run(LINKS)
    Page.objects.filter(url=B).delete()
    crawl.steward.tick()
    assert crawl.row.layer == 0
    assert Era.objects.count() == 2
    crawl.sequence = 0
    assert crawl.claim() == [B]


def test_the_database_forgets_a_step(crawl: Crawl) -> None:
    crawl.run(LINKS)
    crawl.run(LINKS)
    crawl.steward.tick()
    Task.objects.filter(pk=crawl.task).update(layer=0)
    TaskLayer.objects.all().delete()
    assert Era.objects.count() == 1
    crawl.steward.tick()
    assert Era.objects.count() == 2
    assert crawl.claim() == []
    crawl.steward.tick()
    assert crawl.row.layer == 1
    crawl.sequence = 0
    assert crawl.claim() == [C, D]


@both
def test_a_retry_begins_at_the_first_layer_with_failures(crawl: Crawl) -> None:
    crawl.run(LINKS)
    crawl.run(LINKS)
    crawl.steward.tick()
    deep = "http://c.example/2"
    crawl.run(LINKS, failed=(D,))
    crawl.steward.tick()
    crawl.run(LINKS, failed=(deep,))
    crawl.steward.tick()
    assert crawl.row.state == "finished"
    assert retry(crawl.task) == 2
    assert crawl.row.layer == 1
    crawl.steward.tick()
    assert crawl.table()[:2] == [(0, "done", 3, 0, 2, 0), (1, "present", 1, 0, 1, 1)]
    new = "http://d.example/new"
    assert crawl.run({D: [new]}) == [D]
    assert crawl.claim() == []
    crawl.steward.tick()
    assert crawl.row.layer == 2
    assert crawl.run({}) == [deep, new]
    crawl.steward.tick()
    assert crawl.row.state == "finished"
    assert crawl.table() == [
        (0, "done", 3, 0, 2, 0), (1, "done", 2, 0, 2, 0), (2, "done", 2, 0, 0, 0)
    ]  # fmt: skip


def test_a_task_without_layers_has_no_table(published: Frontier, as_role: Any) -> None:
    task = submit("shop", {"city": "Ulm"})
    assert "layers" not in task.settings
    assert layers.of_task(read([task])[0]) == []
    page = as_role("operator").get(f"/admin/crawlservice/task/{task.pk}/change/")
    assert b"cf-layers" not in page.content


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"layers": -1}, "at least 0 and at most 1,000"),
        ({"layers": 5000}, "at least 0 and at most 1,000"),
        ({"pause_layers": True}, "needs layers"),
    ],
)
def test_wrong_settings(published: Frontier, given: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        submit("shop", {"city": "Ulm"}, settings=given)


def test_the_page_of_a_task(published: Frontier, as_role: Callable[[str], Client]) -> None:
    crawl = Crawl(published, pause_layers=True)
    crawl.run(LINKS)
    crawl.run(LINKS)
    crawl.steward.tick()
    page = (
        as_role("operator").get(f"/admin/crawlservice/task/{crawl.task}/change/").content.decode()
    )
    assert "cf-layers" in page
    assert "it continues when it is resumed" in page


def test_a_program_and_the_command_line_see_the_layers(published: Frontier) -> None:
    crawl = Crawl(published, pause_layers=True)
    crawl.run(LINKS)
    crawl.run(LINKS)
    crawl.steward.tick()
    told = program(person("viewer")).get(f"tasks/{crawl.task}").json()["layers"]
    assert [(one["number"], one["state"], one["pages"], one["found"]) for one in told] == [
        (0, "done", 3, 2),
        (1, "present", 0, 0),
    ]
    assert told[0]["ended_at"]
    assert (told[1]["left"], told[1]["ended_at"]) == (2, None)
    console = Console(width=200)
    with console.capture() as capture:
        console.print(report(crawl.row))
    lines = [" ".join(line.split()) for line in capture.get().splitlines()]
    assert "layer 0 done: 3 done, 0 errors, 2 found for the next" in lines
    assert f"next to continue: {command(f'task resume {crawl.task}')}" in lines
    resume(crawl.task)
    with console.capture() as capture:
        console.print(report(crawl.row))
    assert "to continue" not in capture.get()
