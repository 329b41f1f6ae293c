"""A trial of a kept page with today's callback: a node runs it, without any effect."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from django.utils import timezone

from crawlframe.pages.copy import HeldBytes, PageCopy
from crawlframe.request.request import Request, make_rid
from crawlframe.run.outcome import Outcome, Verdict
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Item, KeptPage, Page, Task
from crawlservice.pages import page_trial
from tests.process.conftest import LONGEST_WAIT, OddWeb
from tests.process.reload_project import NodeStarter, Project

pytestmark = pytest.mark.process

SPIDER = """
import asyncio, os, urllib.request
from crawlframe import Request, Spider

class Tried(Spider):
    name = "tried"
    settings = {"robots": False, "retries": 0}
    def start(self, url: str): ...
    def parse(self, response):
        yield {"title": response.css("h1::text").get(), "price": 2}
        yield response.follow("/next", self.parse)
    def raises(self, response):
        return {}["price"]
    def dies(self, response):
        os.kill(os.getpid(), 9)
    def fetches(self, response):
        urllib.request.urlopen("http://127.0.0.1:1/")
    async def stores(self, response):
        from crawlservice.models import Item
        def change():
            assert Item.objects.count() >= 0
            Item.objects.update(data={})
        await asyncio.to_thread(change)
    def writes(self, response):
        open("written", "w")
    def tells(self, response):
        yield {"score": int(open("/proc/self/oom_score_adj").read())}
    def failed(self, error):
        yield {"failed": error.reason}
"""


@pytest.fixture
def database(new_database: Callable[[str], str]) -> str:
    return new_database("sqlite")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project.make(tmp_path / "project")
    project.write("shops/tried.py", SPIDER)
    return project


def keep(
    web: OddWeb, callback: str, status: int = 200, items: list[bytes] | None = None
) -> KeptPage:
    """A page whose callback has ended in error, or with items."""
    done = items is not None
    ended = {"state": "finished", "finished_at": timezone.now(), "na": 1, "ne": int(not done)}
    task = Task.objects.create(
        spider="tried", arguments={"url": web.url}, seeds=b"", nf=int(done), **ended
    )
    request = Request(f"{web.url}{callback}", callback, errback="failed")
    outcome = Outcome(
        make_rid(task.pk, b"a"), task.pk, request.host, request.encode(), 1, 1, url=request.url
    )
    headers = {"received": [["Content-Type", "text/html"]]}
    body = b"<h1>Hello</h1>"
    copy = PageCopy(request.url, "h", "GET", status, headers, body, request.encode(), HeldBytes())
    outcome.results.page, copy.size = copy, len(body)
    if items is None:
        outcome.end(Verdict.ERROR, "callback", "KeyError")
        copy.reason = "callback"
    else:
        outcome.results.items = items
    DjangoLedger().commit([outcome])
    return KeptPage.objects.order_by("-pk")[0]


def answered(page: KeptPage) -> page_trial.Answer:
    order, deadline = page_trial.ask(page), time.monotonic() + LONGEST_WAIT
    while (found := page_trial.answer(order)) is None:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found


def test_a_node_runs_the_callback_of_a_kept_page(
    odd_env: dict[str, str],
    starter: NodeStarter,
    project: Project,
    web: OddWeb,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = starter.node(project.env(odd_env))
    monkeypatch.setattr(page_trial, "frontier", lambda: node.look.frontier)
    version = node.ready().version
    rows = Page.objects.count(), Item.objects.count()
    page = keep(web, "parse", items=[b'{"title": "Hello", "price": 1}'])
    found = answered(page)
    assert (found.problem, found.end, found.version) == ("", "done", version)
    assert found.node == "one"
    assert found.items == [{"title": "Hello", "price": 2}]
    assert found.differences == ["items[0].price: 1 → 2"]
    assert found.requests == [f"parse {web.url}next"]

    found = answered(keep(web, "raises"))
    assert found.end == "error, callback"
    assert "KeyError: 'price'" in found.raised
    assert "in raises" in found.raised
    assert answered(keep(web, "parse", status=404)).items == [{"failed": "http_404"}]
    assert "which is not done for a trial" in answered(keep(web, "fetches")).problem
    found = answered(keep(web, "stores"))
    assert "nothing is written to a database" in found.raised
    assert "no file is written" in answered(keep(web, "writes")).raised
    assert answered(keep(web, "tells")).items == [{"score": 1000}]
    assert "no method 'gone'" in answered(keep(web, "gone")).problem

    monkeypatch.setattr(page_trial, "ANSWER_SECONDS", 8.0)
    with pytest.raises(page_trial.NotTried, match="ended without a result"):
        answered(keep(web, "dies"))
    assert answered(page).items  # the node continues
    assert not web.hits  # nothing was fetched
    assert (Page.objects.count(), Item.objects.count()) == (rows[0] + 9, rows[1] + 1)
    assert node.node.generation == 1
