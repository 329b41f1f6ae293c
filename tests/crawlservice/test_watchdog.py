"""The watchdog, on a real PostgreSQL and with a proxy that swallows answers."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from crawlservice.connections import watchdog
from crawlservice.connections.database_url import database_config
from crawlservice.connections.watchdog import Connection, Cursor, Watchdog
from tests.faults.proxy import Proxy

pytestmark = pytest.mark.postgres
LIMIT = 0.3  # seconds

Ask = Callable[[str], "Future[object]"]


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "LATE_AFTER", 0.1)
    monkeypatch.setattr(watchdog, "CHECK_EVERY", 0.05)


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[Proxy]:
    """A proxy whose port is in ``front``."""
    parts = psycopg2.extensions.parse_dsn(postgres_url)
    host, port = parts.get("host", "localhost"), int(parts.get("port", 5432))
    back: Path | int = Path(host) / f".s.PGSQL.{port}" if host.startswith("/") else port
    with socket.create_server(("127.0.0.1", 0)) as free:
        front = free.getsockname()[1]
    with Proxy(front, back) as made:
        made.front = front  # type: ignore[attr-defined]
        yield made


@pytest.fixture
def connection(postgres_url: str, proxy: Proxy) -> Iterator[Connection]:
    parts = psycopg2.extensions.parse_dsn(postgres_url)
    parts |= {"host": "127.0.0.1", "port": proxy.front, "application_name": "watched"}  # type: ignore[attr-defined]
    made = psycopg2.connect(**parts, connection_factory=Connection, cursor_factory=Cursor)
    made.autocommit = True
    with closing(made):
        yield made


@pytest.fixture
def ask(connection: Connection) -> Iterator[Ask]:
    """Queries from another thread."""

    def run(statement: str) -> object:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else None

    with ThreadPoolExecutor(1) as threads:
        yield lambda statement: threads.submit(run, statement)


@pytest.fixture
def other(postgres_url: str) -> Iterator[psycopg2.extensions.cursor]:
    with closing(psycopg2.connect(postgres_url)) as made:
        made.autocommit = True
        with made.cursor() as cursor:
            yield cursor


def test_an_answer_that_does_not_come_is_an_error_after_the_limit(ask: Ask, proxy: Proxy) -> None:
    told: list[str] = []
    with Watchdog(LIMIT, told.append) as dog:
        proxy.swallow_answers(1)
        answer = ask("SELECT 1")
        with pytest.raises(psycopg2.OperationalError, match="has not answered for"):
            answer.result(30)
        dog.check()
        assert dog.waits == ""
    assert set(told) == {"the database has not answered for more than 0.1 s"}


def test_its_session_leaves_no_locks(
    ask: Ask, proxy: Proxy, other: psycopg2.extensions.cursor
) -> None:
    """In a transaction, it would hold its locks as long as the proxy keeps the connection."""
    ask("BEGIN").result(30)
    ask("SELECT pg_advisory_xact_lock(12)").result(30)
    with Watchdog(LIMIT):
        proxy.swallow_answers(1)
        with pytest.raises(psycopg2.OperationalError):
            ask("SELECT 1").result(30)
    other.execute("SET lock_timeout = '20s'")
    other.execute("SELECT pg_advisory_lock(12)")
    other.execute("SELECT pg_advisory_unlock(12)")


def test_a_commit_is_watched_too(connection: Connection, proxy: Proxy) -> None:
    connection.autocommit = False
    with Watchdog(LIMIT), connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        proxy.swallow_answers(1)
        with pytest.raises(psycopg2.OperationalError, match="has not answered for"):
            connection.commit()


def test_who_waits_for_a_lock_waits_on(ask: Ask, other: psycopg2.extensions.cursor) -> None:
    other.execute("SELECT pg_advisory_lock(13)")
    with Watchdog(LIMIT) as dog:
        answer = ask("SELECT pg_advisory_lock(13)")
        time.sleep(5 * LIMIT)
        assert not answer.done()
        assert "has not answered" in dog.waits
        other.execute("SELECT pg_advisory_unlock(13)")
        assert answer.result(30) == [("",)]


def test_a_session_that_has_just_answered_goes_on(connection: Connection, ask: Ask) -> None:
    """It is idle when it is checked, because it got the lock that it waited for just before."""
    assert ask("SELECT 1").result(30) == [(1,)]
    assert connection.is_at_work(time.monotonic() - 60)
    assert ask("SELECT 2").result(30) == [(2,)]


def test_a_server_that_cannot_be_asked_is_not_waited_for(ask: Ask, proxy: Proxy) -> None:
    with Watchdog(LIMIT):
        proxy.swallow_answers(1)
        answer = ask("SELECT 1")
        while not proxy.lost:
            time.sleep(0.01)
        proxy.lead_to(1)  # where no server listens
        with pytest.raises(psycopg2.OperationalError, match="has not answered for"):
            answer.result(30)


def test_the_thread_ends_with_the_watchdog() -> None:
    with Watchdog(LIMIT):
        assert "watchdog" in {thread.name for thread in threading.enumerate()}
    assert "watchdog" not in {thread.name for thread in threading.enumerate()}


def test_every_connection_of_django_is_watched() -> None:
    options = database_config("postgresql://me@h/db", Path(), "me")["OPTIONS"]
    assert options["connection_factory"] is Connection
    assert options["cursor_factory"] is Cursor
