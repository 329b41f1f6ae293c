"""Fixtures of the tests that run whole nodes: a web of odd pages, and a view from outside."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from crawlframe.conf import Settings
from crawlframe.frontier import Counts, Frontier
from crawlservice.ledger.audit import audit
from crawlservice.models import Event, Item, Page, Task
from crawlservice.tasks.submit import submit as submit_task
from tests.conftest import EXTERNAL_POSTGRES, Running, template_on
from tests.crawlservice.conftest import redis_at
from tests.stock import StockPostgres, StockRedis

LONGEST_WAIT = 180  # seconds; only a test that fails waits for so long, on the busiest machine
LATE = 0.9  # seconds that a request may be late on a busy machine
STOCK = os.environ.get("TEST_SERVERS", "stock") == "stock"


@pytest.fixture(scope="session")
def redis_url(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Servers configured as users have them; with TEST_SERVERS=private, as in other tests."""
    if not STOCK:
        yield request.getfixturevalue("redis_url")
        return
    server = StockRedis(tmp_path_factory.mktemp("stock-redis"))
    server.start()
    yield server.url
    server.kill()


@pytest.fixture(scope="session")
def postgres_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Like ``redis_url``."""
    if not STOCK or EXTERNAL_POSTGRES:
        yield request.getfixturevalue("postgres_url")
        return
    server = StockPostgres()
    try:
        server.start()
        yield server.url
    finally:
        server.stop()


@pytest.fixture(scope="session")
def postgres_template(postgres_url: str) -> Iterator[str]:
    """A template on this server: the other tests may have made theirs already."""
    with template_on(postgres_url) as name:
        yield name


Answer = tuple[int, dict[str, str], bytes]  # status, headers beside the usual ones, body


class SmallSite:
    """A site in threads of this process, with a server at each of these addresses of this machine.
    A subclass has ``answer``."""

    def __init__(self, *addresses: str) -> None:
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                status, more, body = site.answer(self)
                self.send_response(status)
                usual = {"Content-Type": "text/html; charset=utf-8"}
                for name, value in {**usual, "Content-Length": str(len(body)), **more}.items():
                    self.send_header(name, value)
                with suppress(OSError):  # the client was killed
                    self.end_headers()
                    site.send(self, body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # its client was killed

        self._servers = [Server((address, 0), Handler) for address in addresses or ("127.0.0.1",)]
        self.hosts = ["{}:{}".format(*server.server_address[:2]) for server in self._servers]
        self.port = self._servers[0].server_port
        self.url = f"http://{self.hosts[0]}/"
        for server in self._servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()

    def answer(self, asked: BaseHTTPRequestHandler) -> Answer:
        raise NotImplementedError

    def send(self, asked: BaseHTTPRequestHandler, body: bytes) -> None:
        asked.wfile.write(body)

    def close(self) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()


class OddWeb(SmallSite):
    """``pages``: path -> paths it links to."""

    def __init__(self) -> None:
        self.pages: dict[str, list[str]] = {}
        self.bodies: dict[str, bytes] = {}
        self.statuses: dict[str, int] = {}
        self.hits: Counter[str] = Counter()
        self.log: list[tuple[str, float, float]] = []  # path, when it was asked and answered
        self.most = self._asked = 0  # requests at a time
        self._lock = threading.Lock()
        self.latency = 0.0  # seconds
        self.delays: dict[str, float] = {}  # of single paths
        super().__init__()

    def answer(self, asked: BaseHTTPRequestHandler) -> Answer:
        path = asked.path
        if path == "/robots.txt":  # there is none, and it is no page
            return 404, {}, b""
        self.hits[path] += 1
        began = time.monotonic()
        with self._at_work():
            time.sleep(self.delays.get(path, self.latency))
        self.log.append((path, began, time.monotonic()))
        made = "".join(f'<a href="{link}">{link}</a>' for link in self.pages.get(path, []))
        return self.statuses.get(path, 200), {}, self.bodies.get(path, made.encode())

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        with self._lock:
            self._asked += 1
            self.most = max(self.most, self._asked)
        yield
        with self._lock:
            self._asked -= 1


@pytest.fixture
def web() -> Iterator[OddWeb]:
    web = OddWeb()
    yield web
    web.close()


class Look:
    """The state of the database and the frontier, as seen from the test."""

    def __init__(self, redis_url: str, settings: Settings | None = None) -> None:
        self.frontier = Frontier.connect(redis_url, settings or Settings(), follows=True)

    def counts(self, pk: int) -> Counts:
        """The counters of a task; zeros while Redis does not know it."""
        return self.frontier.counts(pk) or Counts("", 0, 0, 0, 0, 0, 0, 0, 0)

    def task(self, pk: int) -> Task:
        return Task.objects.get(pk=pk)

    def wait(
        self, pk: int, ready: Callable[[Task], bool] | None = None, timeout: float = LONGEST_WAIT
    ) -> Task:
        """The task once it has ended and has all its rows (or is ``ready``). Checks meanwhile that
        counters and queues agree."""
        deadline = time.monotonic() + timeout
        while True:
            began = time.monotonic()
            problems = self.frontier.audit()
            assert problems == []
            pause = max(0.1, 5 * (time.monotonic() - began))  # the audit takes a small part
            task = self.task(pk)
            ended = task.state not in Task.ACTIVE and task.unwritten is None
            if ready(task) if ready else ended:
                return task
            counts = self.frontier.counts(pk)
            if time.monotonic() >= deadline:
                why = counts and self.frontier.waits.of({pk: counts})
                raise AssertionError(f"task {pk} is {task.state}, {counts}, waits: {why}")
            time.sleep(pause)

    def items(self, pk: int) -> list[Any]:
        return [item.data for item in Item.objects.filter(task_id=pk).order_by("id")]

    def pages(self, pk: int) -> dict[str, Page]:
        pages = list(Page.objects.filter(task_id=pk))
        by_url = {page.url: page for page in pages}
        assert len(by_url) == len(pages), "a request has two ledger rows"
        return by_url

    def finishes(self, pk: int) -> int:
        return Event.objects.filter(task_id=pk).exclude(kind="quality_failed").count()


@pytest.fixture
def look(orm: str, redis_url: str) -> Look:
    return Look(redis_url)


@pytest.fixture
def starter(look: Look, start_manage: Callable[..., Running]) -> Any:
    from tests.process.reload_project import NodeStarter  # which imports this module

    return NodeStarter(look, start_manage)


@pytest.fixture
def odd_env(manage_env: dict[str, str]) -> dict[str, str]:
    """The environment of a manage.py with the odd spiders, whose nodes notice deaths quickly."""
    manage_env["CRAWLFRAME_SPIDERS"] = "tests.process.spiders"
    manage_env["CRAWLFRAME_LEASE"] = "3"
    manage_env["CRAWLFRAME_BEAT"] = "0.5"
    manage_env["CRAWLFRAME_GRACE"] = "5"
    return manage_env


Submit = Callable[..., int]


@pytest.fixture
def submit(manage_env: dict[str, str], look: Look) -> Submit:
    """Submits as the command does, once a node has published the spider; returns the task's
    number."""

    def submit(spider: str, **arguments: object) -> int:
        deadline = time.monotonic() + LONGEST_WAIT
        while spider not in look.frontier.spiders.all():
            assert time.monotonic() < deadline, f"no node published {spider}"
            time.sleep(0.05)
        words = {name: str(value) for name, value in arguments.items()}
        with redis_at(manage_env["REDIS_URL"]):
            return submit_task(spider, words, from_text=True).pk

    return submit


class Crawl:
    """A task with a number of pages, by default task 1, and the nodes that run it."""

    def __init__(self, look: Look, nodes: list[Running], pages: int, pk: int = 1) -> None:
        self.look = look
        self.nodes = nodes
        self.pages = pages
        self.pk = pk

    def advance(self, pages: int) -> None:
        """Returns when ``pages`` more have ended, or all."""
        look, pk = self.look, self.pk
        wait_for(lambda: look.counts(pk).nf > pages or look.task(pk).state not in Task.ACTIVE)

    def check_task(self) -> None:
        """Waits for the end."""
        look, pk = self.look, self.pk
        all_ = self.pages + 2  # the first page, and the start of the spider
        wait_for(lambda: look.task(pk).state not in Task.ACTIVE)
        task = look.task(pk)
        assert (task.state, task.na, task.nf, task.ne) == ("finished", all_, all_, 0)
        assert (len(look.pages(pk)), len(look.items(pk))) == (all_, all_ - 1)
        assert look.finishes(pk) == 1
        assert look.frontier.audit() == audit(task) == []

    def check_end(self) -> None:
        """Waits for the end, and stops the nodes."""
        self.check_task()
        for node in self.nodes:
            assert node.stop() == 0
        assert self.look.frontier.leases.nodes() == []


@pytest.fixture
def crawl(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    orm: str,
    web: OddWeb,
) -> Callable[..., Crawl]:
    """Starts nodes and a task on the Redis of this URL. ``beside``: the URL for the test itself, if
    it takes another path."""

    def start(url: str, pages: int, nodes: int = 1, beside: str = "") -> Crawl:
        odd_env["REDIS_URL"] = url
        web.latency = 0.05
        look = Look(beside or url)
        running = [
            start_manage("runcrawler", "--node", f"node{n}", "--workers", 1, "--concurrency", 8)
            for n in range(nodes)
        ]
        wait_for(lambda: "odd" in look.frontier.spiders.all())
        with redis_at(beside or url):
            assert submit_task("odd", {"url": web.url, "many": pages}).pk == 1
        return Crawl(look, running, pages)

    return start


def early(times: Iterable[float], delay: float) -> list[tuple[float, float]]:
    """Moments at which requests arrived that cannot have been sent ``delay`` seconds apart: a busy
    machine delays each by less than LATE."""
    moments = sorted(times)
    return [
        (before, after)
        for first, before in enumerate(moments)
        for more, after in enumerate(moments[first + 1 :], 1)
        if after - before < more * delay - LATE
    ]


def wait_for(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONGEST_WAIT
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.05)
