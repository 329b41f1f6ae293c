"""A watch on real nodes: every due visit ends once, whatever dies and whichever code is live."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from crawlservice.ledger.audit import audit
from crawlservice.models import Event, Page, Task, Watch, WatchedItem, WatchedPage
from crawlservice.watches import editing
from tests.conftest import Running
from tests.crawlservice.conftest import redis_at
from tests.process.conftest import Look, OddWeb, wait_for
from tests.process.reload_project import Project

pytestmark = pytest.mark.process

DAY = 86400
PAGES = 12
NEWS = """
from crawlframe import Request, Revisit, Spider

CODE = "{code}"


class News(Spider):
    name = "news"
    settings = {{"concurrency": 4, "delay": 0, "retries": 0}}
    revisit = Revisit(every="1d", compare="body", key="url")

    def start(self, url: str):
        yield Request(url)

    def parse(self, response):
        yield {{"url": response.url, "code": CODE}}
        for link in response.links():
            yield response.follow(link)
"""


@pytest.mark.databases("postgres")
def test_every_due_visit_ends_once_whatever_dies(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    look: Look,
    web: OddWeb,
    tmp_path: Path,
) -> None:
    project = Project.make(tmp_path / "project", git=False)
    project.write("shops/shop.py", NEWS.format(code="first"))
    clock, marks = tmp_path / "clock", tmp_path / "marks"
    clock.write_text("0")
    marks.mkdir()
    odd_env |= project.env(odd_env, WATCH_CLOCK=str(clock), FAULT_MARKS=str(marks))
    odd_env["FAULT"] = "watch.round:2:kill,watch.round:2:error,commit.after:4:kill"
    web.pages = {"/": [f"/{n}" for n in range(PAGES)]} | {f"/{n}": [] for n in range(PAGES)}
    days = 0

    def start(name: str) -> Running:
        return start_manage("runcrawler", "--node", name, "--workers", 2, "--reload")

    def pages() -> dict[str, WatchedPage]:
        rows = WatchedPage.objects.filter(watch=watch)
        return {page.url.removeprefix(web.url): page for page in rows}

    def next_day() -> None:
        nonlocal days
        days += 1
        clock.write_text(str(days * (DAY + 600)))

    def are_visited(*but: str) -> bool:
        rows = pages()
        return not Task.objects.filter(watch=watch, state__in=Task.ACTIVE).exists() and all(
            page.visits == days + 1 and page.rid is None
            for path, page in rows.items()
            if path not in but
        )

    nodes = [start("one")]
    wait_for(lambda: "news" in look.frontier.spiders.all())
    nodes.append(start("two"))
    with redis_at(odd_env["REDIS_URL"]):
        watch = editing.begin("news", {"url": web.url})
    wait_for(lambda: Watch.objects.get(pk=watch.pk).settled_at is not None)
    assert len(pages()) == PAGES + 1
    assert are_visited()
    assert not Event.objects.filter(kind="pages_found").exists()

    # The node that leads dies in the middle of a round, while pages change, go and come.
    web.latency = 0.2
    web.pages["/"] = [*web.pages["/"], "/new"]
    web.pages["/3"] = ["/changed"]
    web.statuses["/5"] = 404
    next_day()
    wait_for(lambda: Task.objects.filter(watch=watch, state__in=Task.ACTIVE).exists())
    leader = nodes.pop(0)
    leader.process.send_signal(signal.SIGKILL)
    leader.process.wait()
    new = ("new", "changed")
    wait_for(lambda: {*new} <= {*pages()} and are_visited(*new))
    assert pages()["5"].misses == 1

    # The code changes, and a worker dies.
    project.write("shops/shop.py", NEWS.format(code="second"))
    nodes.append(start("three"))
    wait_for(lambda: {node.node for node in look.frontier.leases.nodes()} >= {"two", "three"})
    next_day()
    wait_for(lambda: Task.objects.filter(watch=watch, state__in=Task.ACTIVE).exists())
    workers = psutil.Process(nodes[0].process.pid).children(recursive=True)
    workers[-1].kill()
    wait_for(lambda: are_visited(*new))
    next_day()
    wait_for(lambda: are_visited("5", *new))

    assert Event.objects.filter(kind="page_gone").count() == 1
    found = [u for e in Event.objects.filter(kind="pages_found") for u in (e.detail or {})["urls"]]
    assert sorted(found) == [f"{web.url}changed", f"{web.url}new"]
    rows = pages()
    assert rows["5"].state == "gone"
    assert [path for path, page in rows.items() if page.changes] == ["", "3"]
    ended = Counter(Page.objects.exclude(url="start:").values_list("url", flat=True))
    assert ended == {page.url: page.visits for page in rows.values()}
    for task in Task.objects.all():
        assert audit(task) == []
        assert (
            look.finishes(task.pk)
            - Event.objects.filter(task=task, kind__in=("pages_found", "page_gone")).count()
            == 1
        )
    assert look.frontier.audit() == []
    codes = {*WatchedItem.objects.filter(gone_at=None).values_list("data__code", flat=True)}
    assert codes == {"second"}
    assert len({*marks.iterdir()}) == 3
