"""Targets of redirects pass the filter of duplicates, as links do: on two nodes, within a partition
and across."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler

import pytest
from django.conf import settings as django_settings

from crawlframe.conf import Settings
from crawlframe.run.reasons import DUPLICATE
from crawlservice.ledger.audit import audit
from crawlservice.models import Page
from crawlservice.tasks.submit import submit
from tests.conftest import Running
from tests.crawlservice.conftest import redis_at
from tests.process.conftest import Answer, Look, SmallSite, wait_for

pytestmark = pytest.mark.process

PAGES, HOSTS, PARTITIONS = 10, 4, 3
SWAP = {ord(one): other for one, other in zip("swap", "paws", strict=True)}


class MovedSite(SmallSite):
    """A site on several hosts: ``/new/<n>`` and its former places; pages that only redirects lead
    to; pages behind a cookie; one that fails. ``hits``: answers other than redirects, by URL."""

    def __init__(self) -> None:
        self.hits: Counter[str] = Counter()
        super().__init__(*(f"127.0.2.{n + 1}" for n in range(HOSTS)))
        self.hosts = [f"http://{host}" for host in self.hosts]

    def answer(self, asked: BaseHTTPRequestHandler) -> Answer:
        cookie = "seen" in (asked.headers["Cookie"] or "")
        status, to, links = self.place(asked.path, cookie)
        headers = {"Location": to} if to else {}
        if not to:
            self.hits[f"http://{asked.headers['Host']}{asked.path}"] += 1
            time.sleep(0.1)
        if any(word in asked.path for word in ("/wall", "/pong", "/paws")):
            headers["Set-Cookie"] = "seen=1; Path=/"
        return status, headers, "".join(f'<a href="{link}">on</a>' for link in links).encode()

    def url_of(self, kind: str, n: int) -> str:
        shift = {"old": 1, "older": 2, "p": 1, "q": 2}.get(kind, 0)
        return f"{self.hosts[(n + shift) % HOSTS]}/{kind}/{n}"

    def place(self, path: str, cookie: bool) -> tuple[int, str, list[str]]:
        """Status, Location, links."""
        _, kind, number = f"{path}/0".split("/")[:3]
        n = int(number or 0)
        if kind in ("old", "older"):
            return (301 if kind == "old" else 308), self.url_of("new", n), []
        if kind in ("p", "q"):
            return (302 if kind == "p" else 307), self.url_of("only", n), []
        if kind in ("b", "c"):
            return 303, self.url_of("broken", n), []
        if kind == "wall" and not cookie:
            return 302, path, []
        if kind in ("ping", "pong") and not cookie:
            return 302, path.replace("ping", "pong"), []
        if kind == "paws" or (kind == "swap" and not cookie):  # both are linked
            return 302, path.translate(SWAP), []
        if kind == "pong":
            return 302, path.replace("pong", "ping"), []
        if kind == "broken":
            return 500, "", []
        if kind == "":
            kinds = ("new", "old", "older", "p", "q")
            links = [self.url_of(kind, n) for n in range(PAGES) for kind in kinds]
            links += [f"{self.hosts[3]}/wall/1", f"{self.hosts[2]}/ping/1"]
            links += [f"{self.hosts[1]}/swap/1", f"{self.hosts[1]}/paws/1"]
            return 200, "", [*links, self.url_of("b", 1), self.url_of("c", 1)]
        # Pages link to pages to which redirects lead at the same time.
        return (
            200,
            "",
            [self.url_of(kind, (n + step) % PAGES) for kind in ("new", "only") for step in (1, 2)],
        )


@pytest.fixture
def site() -> Iterator[MovedSite]:
    site = MovedSite()
    yield site
    site.close()


def test_each_page_comes_once(
    odd_env: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    start_manage: Callable[..., Running],
    redis_url: str,
    orm: str,
    site: MovedSite,
) -> None:
    odd_env["CRAWLFRAME_PARTITIONS"] = str(PARTITIONS)
    shared = Settings(partitions=PARTITIONS)
    monkeypatch.setattr(django_settings, "CRAWLFRAME", shared)
    look = Look(redis_url, shared)
    for name in ("one", "two"):
        start_manage("runcrawler", "--node", name, "--workers", 2, "--concurrency", 8)
    wait_for(lambda: "moved" in look.frontier.spiders.all())
    with redis_at(odd_env["REDIS_URL"]):
        pk = submit("moved", {"url": f"{site.hosts[0]}/"}).pk
    task = look.wait(pk)
    pages = [site.url_of(kind, n) for kind in ("new", "only") for n in range(PAGES)]
    pages += [f"{site.hosts[0]}/", f"{site.hosts[3]}/wall/1", f"{site.hosts[2]}/ping/1"]
    pages.append(f"{site.hosts[1]}/swap/1")
    assert sorted(item["url"] for item in look.items(pk)) == sorted(pages)
    broken = site.url_of("broken", 1)
    hits = dict(site.hits)
    assert hits.pop(broken) == 2  # the second one does not rely on a page that failed
    assert hits == dict.fromkeys(pages, 1)
    assert (task.state, task.ne) == ("finished", 2)
    rows = Page.objects.filter(task=pk, reason=DUPLICATE)
    assert set(rows.values_list("state", "items")) == {("done", 0)}
    assert rows.count() == task.nf - len(pages) - 1
    assert look.frontier.audit() == audit(task) == []
