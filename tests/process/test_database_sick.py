"""The database is reachable and does not work: workers hold their results in bounded memory, stop
fetching, and continue as soon as it works."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from typing import Any

import psutil
import psycopg2
import pytest
from django.db import connections

from crawlframe.frontier import Counts
from crawlframe.request.request import root_admission
from crawlservice.ledger.audit import audit, audit_cluster
from crawlservice.models import Era, Page, Task
from crawlservice.monitoring import nodes
from crawlservice.tasks.submit import submit
from tests.conftest import django_on
from tests.crawlservice.conftest import redis_at
from tests.faults.cluster import Cluster
from tests.process.conftest import LONGEST_WAIT, Look, OddWeb
from tests.servers import PostgresServer

pytestmark = pytest.mark.process

PARTS = 16
WORKERS, CONCURRENCY, BACKLOG = 2, 16, 20
MOST_HELD = WORKERS * (BACKLOG + CONCURRENCY)
STILL = 0.7  # seconds without a fetch after which fetching has stopped
ENVIRONMENT = {"CRAWLFRAME_SPIDERS": "tests.process.spiders", "CRAWLFRAME_BACKLOG": str(BACKLOG)}
# Some of the waits here are longer, because of a lock: they continue.
ENVIRONMENT["CRAWLFRAME_DATABASE_TIMEOUT"] = "8"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two nodes of one worker, which work for all tests here."""
    directory = tmp_path_factory.mktemp("sick")
    with (
        Cluster(
            directory, WORKERS, 1, random.Random(1), options=(), variables=ENVIRONMENT
        ) as cluster,
        django_on(cluster.database),
        redis_at(cluster.redis),
    ):
        yield cluster
        assert cluster.stop() == [0] * WORKERS


class Crawl:
    """A task that crawls all of ``web``; ``masters`` returns the processes of the nodes. The first
    page has so many ``sections``."""

    def __init__(
        self,
        redis_url: str,
        web: OddWeb,
        masters: Callable[[], list[psutil.Process]],
        sections: int = 16,
    ) -> None:
        self.web, self._masters = web, masters
        self.pages = 1 + sections + sections * PARTS
        self.look = Look(redis_url)
        connections.close_all()  # earlier tests may have broken them
        web.latency = 0.1
        web.pages["/"] = [f"/{section}" for section in range(sections)]
        for section in range(sections):
            web.pages[f"/{section}"] = [f"/{section}/{part}" for part in range(PARTS)]
        wait(lambda: len(self.look.frontier.leases.nodes()) == len(masters()))
        wait(lambda: "odd" in self.look.frontier.spiders.all())
        self.pk = submit("odd", {"url": web.url}).pk
        self.pids = self._workers()

    @property
    def counts(self) -> Counts:
        return self.look.counts(self.pk)

    @property
    def unsettled(self) -> int:
        """Pages being fetched, or fetched without a report of their results to Redis."""
        done = self.counts.nf  # with the request that ran the spider's start
        return self.web.hits.total() - max(0, done - 1)

    def advance(self, pages: int) -> None:
        """Returns when ``pages`` more have ended, or all."""
        enough = self.counts.nf + pages
        wait(lambda: self.counts.nf > enough or not self.look.frontier.open_tasks())

    def hold(self) -> None:
        """Returns when fetching has stopped; results of fetched pages are held."""
        hits, since = -1, 0.0

        def is_still() -> bool:
            nonlocal hits, since
            if hits != self.web.hits.total():
                hits, since = self.web.hits.total(), time.monotonic()
            return time.monotonic() - since > STILL and self.unsettled > BACKLOG

        wait(is_still)
        assert self.unsettled <= MOST_HELD
        assert self.look.frontier.audit() == []
        self._held_at = self.counts.nf

    def resume(self) -> None:
        """Called when the obstacle is gone; returns when the crawl has continued."""
        wait(lambda: self.counts.nf > self._held_at or not self.look.frontier.open_tasks())

    def check_end(self, fetches: int = 1) -> None:
        """Waits for the end. Each page was fetched at most ``fetches`` times."""
        connections.close_all()
        look, pk = self.look, self.pk
        wait(lambda: look.task(pk).state not in Task.ACTIVE)
        wait(lambda: not look.frontier.open_tasks())
        task = look.task(pk)
        all_ = self.pages + 1  # with the request that runs the spider's start
        assert (task.state, task.na, task.nf, task.ne) == ("finished", all_, all_, 0)
        urls = {self.web.url + path.lstrip("/") for path in self.web.hits}
        assert look.pages(pk).keys() == {"start:", *urls}
        assert sorted(item["url"] for item in look.items(pk)) == sorted(urls)
        assert len(urls) == self.pages
        assert look.finishes(pk) == 1
        assert audit(task) == audit_cluster(look.frontier) == []
        assert max(self.web.hits.values()) <= fetches

    def holder_of_root(self) -> int:
        """The generation that holds the request which runs the spider's start."""
        frontier = self.look.frontier
        place = frontier.store.redis.hget(
            frontier.store.keys[0]("OWN"), root_admission(self.pk).rid
        )
        return int(re.split(rb"[.+]", place)[0])

    def check_workers(self) -> None:
        """Checks that none has died."""
        assert self._workers() >= self.pids

    def _workers(self) -> set[int]:
        return {child.pid for master in self._masters() for child in master.children()}


@pytest.fixture
def crawl(cluster: Cluster, web: OddWeb) -> Crawl:
    return Crawl(cluster.redis, web, cluster.heads)


class Control:
    """A connection of the database's administrator, without a proxy."""

    def __init__(self, cluster: Cluster) -> None:
        self._server = cluster.postgres_server
        self._connection = psycopg2.connect(self._server.url)
        self._connection.autocommit = True
        self.cursor = self._connection.cursor()
        self._said = len(self._server.log.read_text())

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        self.cursor.execute(statement)
        return self.cursor.fetchall() if self.cursor.description else []

    @contextmanager
    def setting(self, name: str, value: str) -> Iterator[None]:
        """Changes a setting of the server for everybody, from the next transaction on."""
        before = self.run(f"SHOW {name}")
        self.run(f"ALTER SYSTEM SET {name} = '{value}'")
        self.run("SELECT pg_reload_conf()")
        wait(lambda: self.run(f"SHOW {name}") != before)
        try:
            yield
        finally:
            with suppress(psycopg2.Error):  # it may have been killed
                self.run(f"ALTER SYSTEM RESET {name}")
                self.run("SELECT pg_reload_conf()")

    @contextmanager
    def transaction(self, *statements: str) -> Iterator[None]:
        self.run("BEGIN")
        try:
            for statement in statements:
                self.run(statement)
            yield
        finally:
            self.run("ROLLBACK")

    def waiting(self) -> int:
        """The number of sessions that wait for a lock."""
        return int(self.run("SELECT count(*) FROM pg_locks WHERE NOT granted")[0][0])

    def log(self) -> str:
        """The server's log since then."""
        return self._server.log.read_text()[self._said :]

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def control(cluster: Cluster) -> Iterator[Control]:
    control = Control(cluster)
    yield control
    control.close()


@pytest.mark.postgres
def test_an_answer_that_never_comes_is_not_waited_for_for_ever(
    crawl: Crawl, cluster: Cluster
) -> None:
    """All connections stay open, but pass nothing. First of all tests: after an earlier loss, the
    node would report its steward for 90 s."""
    crawl.advance(25)
    connections.close_all()  # ours has no such limit
    cluster.postgres_proxy.freeze()
    why = "the database has not answered for more than 5 s"
    waiting = set()  # nodes, not all at the same moment

    def all_have_waited() -> bool:
        for node in nodes.read():
            if node.health.waits == why:
                assert node.condition == nodes.ABNORMAL
                waiting.add(node.node)
        return len(waiting) == WORKERS

    wait(all_have_waited)
    crawl.check_end()
    crawl.check_workers()
    # A worker may have been reading the task instead.
    late = re.findall(r"(results wait|a request waits): the database has not", cluster.output)
    assert len(late) >= WORKERS
    wait(lambda: not any(node.health.waits for node in nodes.read()))


@contextmanager
def read_only(control: Control) -> Iterator[None]:
    with control.setting("default_transaction_read_only", "on"):
        control.run("SET default_transaction_read_only = off")
        yield


@contextmanager
def no_connection_left(control: Control) -> Iterator[None]:
    others = "backend_type = 'client backend' AND pid <> ALL (%s)"
    ours = [control.cursor.connection.info.backend_pid]
    every = int(control.run("SHOW max_connections")[0][0])
    with ExitStack() as stack:
        # One that is just being made has its place, but is not listed yet.
        while len(ours) < every:
            query = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"
            control.cursor.execute(query, [ours])
            while True:
                try:
                    connection = psycopg2.connect(control.cursor.connection.dsn)
                except psycopg2.OperationalError:
                    break
                stack.callback(connection.close)
                ours.append(connection.info.backend_pid)
        yield


@contextmanager
def locked_table(control: Control) -> Iterator[None]:
    with control.transaction("LOCK TABLE crawlservice_page IN ACCESS EXCLUSIVE MODE"):
        yield


@contextmanager
def statements_time_out(control: Control) -> Iterator[None]:
    with control.setting("statement_timeout", "100ms"):
        control.run("SET statement_timeout = 0")
        with locked_table(control):
            yield


@contextmanager
def locks_time_out(control: Control) -> Iterator[None]:
    with control.setting("lock_timeout", "100ms"):
        control.run("SET lock_timeout = 0")
        with locked_table(control):
            yield


@contextmanager
def deadlock(control: Control) -> Iterator[None]:
    """Between a worker, which comes first, and us: one has locked the table, the other the task's
    row. Other sessions that wait for the row, as the steward's, hold no lock that we need."""
    blocked = """SELECT 1 FROM pg_locks AS waits JOIN pg_locks AS held USING (pid)
        WHERE NOT waits.granted AND held.relation = 'crawlservice_page'::regclass"""
    with control.setting("deadlock_timeout", "2s"):
        control.run("SET deadlock_timeout = '1h'")
        control.run("SET lock_timeout = '30s'")
        with control.transaction("SELECT FROM crawlservice_task FOR UPDATE"):
            wait(lambda: bool(control.run(blocked)))
            control.run("LOCK TABLE crawlservice_page IN ACCESS EXCLUSIVE MODE")
            yield


HARMS: list[tuple[Callable[[Control], AbstractContextManager[None]], str]] = [
    (read_only, "in a read-only transaction"),
    (no_connection_left, "sorry, too many clients already"),
    (locked_table, ""),
    (statements_time_out, "canceling statement due to statement timeout"),
    (locks_time_out, "canceling statement due to lock timeout"),
    (deadlock, "deadlock detected"),
]


@pytest.mark.postgres
def test_results_are_held_while_it_refuses_them(
    cluster: Cluster, control: Control, web: OddWeb
) -> None:
    """In one crawl, one after another."""
    crawl = Crawl(cluster.redis, web, cluster.heads, sections=48)
    for harm, told in HARMS:
        print(harm.__name__)
        crawl.advance(20)
        web.latency = 2.0  # or a busy machine is done with the crawl before the database is sick
        with harm(control):
            web.latency = 0.1
            crawl.hold()
            assert told in control.log()
        crawl.resume()
    # The ledger says whether a commit was made whose answer is lost.
    proxy = cluster.postgres_proxy
    for number in range(proxy.lost + 1, proxy.lost + 4):
        crawl.advance(25)
        proxy.lose_answers(1)
        wait(lambda: proxy.lost == number)  # noqa: B023
    crawl.check_end()
    crawl.check_workers()
    assert "results wait: server closed the connection" in cluster.output


@pytest.mark.postgres
def test_nodes_that_write_the_same_request_try_again_when_it_cannot_order_them(
    cluster: Cluster, control: Control, web: OddWeb
) -> None:
    """A node is declared dead while its commit waits, and another node runs the same request."""
    with ExitStack() as stack, control.setting("default_transaction_isolation", "serializable"):
        with control.transaction("LOCK TABLE crawlservice_page IN SHARE MODE"):
            crawl = Crawl(cluster.redis, web, cluster.heads)
            wait(lambda: control.waiting() == 1)
            leases, holder = crawl.look.frontier.leases, crawl.holder_of_root()
            (master,) = [node.pid for node in leases.nodes() if node.generation == holder]
            os.kill(master, signal.SIGSTOP)
            stack.callback(os.kill, master, signal.SIGCONT)
            leases.replay(holder)
            wait(lambda: control.waiting() == 2)
        wait(lambda: "results wait: could not serialize access" in cluster.output)
        crawl.check_end()


@pytest.fixture
def standby(cluster: Cluster) -> PostgresServer:
    """A standby that receives every change as fast as possible."""
    return cluster.standby()


@pytest.mark.postgres
def test_a_standby_that_confirms_takes_over(
    cluster: Cluster, control: Control, standby: PostgresServer, crawl: Crawl
) -> None:
    with control.setting("synchronous_standby_names", "*"):
        wait(lambda: control.run("SELECT sync_state FROM pg_stat_replication") == [("sync",)])
        crawl.advance(60)
        cluster.postgres_server.crash()
        crawl.hold()
        cluster.fail_over(standby)
    crawl.resume()
    crawl.check_end()
    crawl.check_workers()


@pytest.mark.postgres
def test_a_standby_that_was_behind_takes_over(
    cluster: Cluster, control: Control, standby: PostgresServer, crawl: Crawl
) -> None:
    """The rows it lacks are fetched again, when the task seems to have ended."""
    crawl.advance(40)
    with closing(psycopg2.connect(standby.url)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("ALTER SYSTEM SET primary_conninfo = ''")
            cursor.execute("SELECT pg_reload_conf()")
    wait(lambda: control.run("SELECT 1 FROM pg_stat_replication") == [])
    eras = Era.objects.count()
    crawl.advance(100)
    cluster.postgres_server.crash()
    cluster.fail_over(standby)
    connections.close_all()
    lost = crawl.counts.nf - Page.objects.filter(task=crawl.pk).count()
    assert lost > 0
    crawl.check_end(fetches=2)
    assert Era.objects.count() == eras + 1
    assert 0 < crawl.web.hits.total() - crawl.pages <= lost + MOST_HELD


def wait(ready: Callable[[], bool], seconds: float = LONGEST_WAIT) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.02)
