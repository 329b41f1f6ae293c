"""Pages are fetched once for all tasks that want them, and not again while they do not change."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

import psutil
import pytest

from crawlservice.models import KeptPage, PageBody, Stat
from tests.conftest import Running
from tests.process.conftest import Answer, Look, SmallSite, Submit

PAGES, TASKS, KILLS = 90, 3, 4
SLOW = 0.02  # seconds that each page takes

pytestmark = pytest.mark.process


class Site(SmallSite):
    """Pages that link to each other. ``asked``: answered requests by path; ``seen``: the paths of
    all requests; ``changed``: numbers of pages."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.not_modified = self.sent = 0
        self.seen: list[str] = []
        self.changed: set[int] = set()
        self._lock = threading.Lock()
        super().__init__()

    def answer(self, asked: BaseHTTPRequestHandler) -> Answer:
        with self._lock:
            self.seen.append(asked.path)
        time.sleep(SLOW)
        body = self.body(int(asked.path.strip("/") or 0))
        tag = f'"{hashlib.sha256(body).hexdigest()[:12]}"'
        with self._lock:
            if asked.headers.get("If-None-Match") == tag:
                self.not_modified += 1
                return 304, {"ETag": tag}, b""
            self.asked[asked.path] += 1
            self.sent += len(body)
        return 200, {"ETag": tag}, body

    def body(self, number: int) -> bytes:
        mark = " again" if number in self.changed else ""
        to = {(number * 7 + k) % PAGES for k in range(1, 6)} | {(number + 1) % PAGES}
        links = "".join(f'<a href="/{one}">{one}</a>' for one in sorted(to))
        return f"<p>Page <b>{number}{mark}</b> {links} {'text ' * 200}</p>".encode()

    def items(self) -> list[tuple[str, str]]:
        found = [(f"{self.url}{n}", self._number(n)) for n in range(PAGES)]
        return sorted([*found, (self.url, self._number(0))])

    def _number(self, number: int) -> str:
        return f"{number} again" if number in self.changed else str(number)

    def paths(self) -> set[str]:
        """The paths of all requests so far."""
        with self._lock:
            return {*self.seen}


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


def items(look: Look, pk: int) -> list[tuple[str, str]]:
    return sorted((item["url"], item["number"]) for item in look.items(pk))


@pytest.mark.databases("postgres")
def test_tasks_fetch_each_page_once_though_workers_and_a_node_die(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    submit: Submit,
    look: Look,
    site: Site,
) -> None:
    def start(name: str) -> Running:
        return start_manage("runcrawler", "--node", name, "--workers", 2, "--concurrency", 16)

    one, two = start("one"), start("two")
    tasks = [submit("once", url=site.url) for _ in range(TASKS)]
    chance, again = random.Random(1), set[str]()
    for kill in range(1, KILLS + 1):
        wanted = kill * PAGES // (KILLS + 2)
        look.wait(tasks[0], lambda task, n=wanted: len(site.asked) >= n)  # type: ignore[misc]
        kept = {urlsplit(url).path for url in KeptPage.objects.values_list("url", flat=True)}
        if kill == KILLS // 2:
            two.process.kill()
            two = start("two")
        else:
            chance.choice(psutil.Process(one.process.pid).children()).kill()
        again |= site.paths() - kept  # they were on their way to the store
    for pk in tasks:
        task = look.wait(pk)
        failed = [*look.pages(pk).values()]
        assert (task.state, task.nf, task.ne) == ("finished", PAGES + 2, 0), failed[:3]
        assert items(look, pk) == site.items()
        assert look.finishes(pk) == 1
    twice = {path for path, times in site.asked.items() if times > 1}
    assert twice <= again
    assert len(site.asked) == PAGES + 1
    assert site.asked.total() <= PAGES + 1 + len(again)
    total = site.asked.total()
    seldom = submit("seldom", url=site.url)  # a stored page costs no time of its host
    assert look.wait(seldom).nf == PAGES + 2
    assert (items(look, seldom), site.asked.total()) == (site.items(), total)
    assert KeptPage.objects.count() == (TASKS + 1) * (PAGES + 1)
    assert PageBody.objects.count() == PAGES
    assert look.frontier.audit() == []
    assert (one.stop(), two.stop()) == (0, 0)


def test_a_second_crawl_gets_what_has_changed(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    submit: Submit,
    look: Look,
    site: Site,
) -> None:
    node = start_manage("runcrawler", "--node", "one", "--workers", 2, "--concurrency", 16)
    first = submit("again", url=site.url)
    assert look.wait(first).nf == PAGES + 2
    assert items(look, first) == site.items()
    sent, asked = site.sent, site.asked.total()

    for spider, parsed in (("again", 0), ("always", PAGES + 1)):
        pk = submit(spider, url=site.url)
        task = look.wait(pk)
        assert (task.outcome, task.nf) == ("finished", PAGES + 2)
        assert items(look, pk) == site.items()
        counters = dict(Stat.objects.filter(task=pk).values_list("name", "value"))
        if spider == "again":
            assert counters == {"store/not_modified": PAGES + 1, "store/taken_over": PAGES + 1}
        else:
            assert counters == {"store/not_modified": PAGES + 1, "parsed": parsed}
        statuses = {page.status for page in look.pages(pk).values()}
        assert statuses == {304, None}  # the root request has none
    assert site.not_modified == 2 * (PAGES + 1)
    assert (site.sent, site.asked.total()) == (sent, asked)  # not a byte of a page

    site.changed = {3, 30, 77}
    third = submit("again", url=site.url)
    look.wait(third)
    assert items(look, third) == site.items()
    assert site.asked.total() == asked + 3
    assert node.stop() == 0
