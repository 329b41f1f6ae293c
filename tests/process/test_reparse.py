"""Kept pages parsed again by whole nodes: everything dies in between, and the result is exact."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from crawlservice.ledger.audit import audit
from crawlservice.models import Era, Item, Page, ParsedPage, Task
from crawlservice.reparse.submission import submit
from crawlservice.tasks.submit import cancel, pause, resume
from tests.crawlservice.conftest import redis_at
from tests.process.conftest import LONGEST_WAIT, Look, wait_for
from tests.process.reload_project import NodeStarter, Project
from tests.servers import RedisServer

pytestmark = [pytest.mark.process, pytest.mark.timeout(4 * LONGEST_WAIT)]

PAGES = 300
BROKEN = 7  # every so many pages have the markup that the first parser does not know
LOST = 5_000  # bytes of Redis's log

SHOP = """\
import time
from crawlframe import Request, Response, Spider

FETCHED = {fetched!r}


class Made:
    async def fetch(self, request, call_next):
        with open(FETCHED, "a") as file:
            file.write(request.url + "\\n")
        n = int(request.url.rpartition("/")[2])
        name = "cost" if n % {broken} == 0 else "price"
        return Response(request.url, 200, {{}}, f'<p class="{{name}}">{{n}}'.encode(), request)


class Shop(Spider):
    name = "shop"
    settings = {{"concurrency": 64, "delay": 0, "robots": False, "keep": "all"}}
    middlewares = [Made]

    def start(self, url: str):
        for n in range({pages}):
            yield Request(f"http://h{{n % 3}}.example/{{n}}")

    def parse(self, response):
        time.sleep({pause})
        price = {parser}
        yield {{"n": int(price)}}
"""
FIRST = 'response.css(".price::text").get() or ""'
FIXED = 'response.css("p::text").get() or ""'


def told(pk: int) -> list[Any]:
    columns = ("source_rid", "url", "before", "after", "added", "removed", "changed", "fields")
    rows = ParsedPage.objects.filter(task=pk).order_by("url")
    return [*rows.values_list(*columns, "examples", "links", "repaired")]


def parsed(pk: int) -> int:
    return Page.objects.filter(task=pk).count()


@pytest.mark.databases("postgres")
def test_everything_dies_in_between(
    odd_env: dict[str, str],
    redis_server: Callable[..., RedisServer],
    starter: NodeStarter,
    tmp_path: Path,
) -> None:
    server = redis_server()
    odd_env["REDIS_URL"] = server.url
    look = Look(server.url)
    fetched = tmp_path / "fetched"
    project = Project.make(tmp_path / "project")

    def write(parser: str, pause: float, more: str = "") -> None:
        values = {"fetched": str(fetched), "broken": BROKEN, "pages": PAGES}
        text = SHOP.format(parser=parser, pause=pause, **values)
        project.write("shops/shop.py", text + more)
        project.commit()

    write(FIRST, 0)
    odd_env["CRAWLFRAME_START_AHEAD"] = "100"
    node = starter.node(project.env(odd_env), "--workers", 2, "--concurrency", 8, look=look)
    node.ready()
    pk = node.start("any")
    limits = {"delay": 0, "concurrency": 64, "robots": False, "keep": "all"}
    Task.objects.filter(pk=pk).update(settings=limits, arguments={"url": "any"})
    first = look.wait(pk)
    lacking = len(range(0, PAGES, BROKEN))
    assert (first.na, first.ne, first.items) == (PAGES + 1, lacking, PAGES - lacking)
    before = {*Item.objects.values_list("pk", "rid", "version")}
    asked = fetched.read_text()
    write(FIXED, 0.012)
    node.renewed(1)
    with redis_at(server.url):
        wait_for(lambda: look.frontier.spiders.find("shop") is not None)
        dry = submit(pk, dry_run=True).pk
    assert look.wait(dry).na == PAGES + 1
    assert {*Item.objects.values_list("pk", "rid", "version")} == before
    with redis_at(server.url):
        real = submit(pk).pk
    wait_for(lambda: parsed(real) > PAGES // 10)
    for worker in node.children()[-2:]:
        worker.kill()
    wait_for(lambda: parsed(real) > 3 * PAGES // 10)
    master = psutil.Process(node.node.pid)
    master.kill()
    wait_for(lambda: parsed(real) > PAGES // 2)
    server.kill()
    server.lose(LOST)
    server.start()
    wait_for(lambda: parsed(real) > 7 * PAGES // 10)
    write(FIXED, 0.011, "# a comment\n")
    task = look.wait(real)
    assert (task.state, task.outcome) == ("finished", "finished")
    assert (task.na, task.nf, task.ne, task.items) == (PAGES + 1, PAGES + 1, 0, 0)
    assert told(dry) == told(real)
    assert len(told(real)) == lacking
    first.refresh_from_db()
    assert (first.nf, first.ne, first.items) == (PAGES + 1, 0, PAGES)
    assert (first.outcome, first.reason) == ("finished", "")
    assert sorted(item["n"] for item in look.items(pk)) == [*range(PAGES)]
    assert {*Item.objects.values_list("pk", "rid", "version")} > before
    assert fetched.read_text() == asked
    assert look.frontier.audit() == []
    for one in (pk, dry, real):
        assert audit(Task.objects.get(pk=one)) == []
        assert look.finishes(one) == 1
    assert Era.objects.count() >= 1
    # The places of the waiting pages are gone.
    with redis_at(server.url):
        left = [*look.frontier.store.redis.scan_iter("*page/*")]
    assert left == []


def test_a_parse_beside_the_fetch_is_paused_and_cancelled(
    odd_env: dict[str, str],
    redis_url: str,
    look: Look,
    starter: NodeStarter,
    tmp_path: Path,
) -> None:
    """A task only fetches; two others parse its pages meanwhile, and one of these is cancelled."""
    project = Project.make(tmp_path / "project")
    values = {"fetched": str(tmp_path / "fetched"), "broken": BROKEN, "pages": PAGES}
    text = SHOP.format(parser=FIXED, pause=0, **values)
    text = text.replace('"keep": "all"', '"keep": "all", "fetch_only": "start"')
    text = text.replace('file.write(request.url + "\\n")', "time.sleep(0.03)")
    project.write("shops/shop.py", text)
    project.commit()
    node = starter.node(project.env(odd_env), "--workers", 2, "--concurrency", 8)
    node.ready()
    pk = node.start("any")
    limits = {"delay": 0, "concurrency": 64, "robots": False, "fetch_only": "start", "keep": "all"}
    Task.objects.filter(pk=pk).update(settings=limits, arguments={"url": "any"})
    wait_for(lambda: parsed(pk) > 20)
    with redis_at(redis_url):
        one, two = (submit(pk, wait=True, dry_run=dry).pk for dry in (False, True))
        wait_for(lambda: parsed(one) > 5 and parsed(two) > 5)
        pause(one)
        cancel(two)
        look.wait(two)
        resume(one)
    first, task = look.wait(pk), look.wait(one)
    assert (task.outcome, task.na, task.nf) == ("finished", PAGES + 1, PAGES + 1)
    first.refresh_from_db()
    assert (first.outcome, first.na, first.nf, first.items) == (
        "finished", PAGES + 1, PAGES + 1, PAGES,
    )  # fmt: skip
    assert sorted(item["n"] for item in look.items(pk)) == [*range(PAGES)]
    assert Task.objects.get(pk=two).outcome == "cancelled"
    assert [audit(Task.objects.get(pk=number)) for number in (pk, one, two)] == [[], [], []]
