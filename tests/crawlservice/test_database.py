"""prepare(): the tables are created or brought up to date once, or the refusal names the fix."""

from __future__ import annotations

import gc
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.test import override_settings

from crawlframe.errors import ConfigError
from crawlservice.connections.database import prepare
from crawlservice.models import Task
from tests.conftest import django_on
from tests.servers import PostgresServer

pytestmark = pytest.mark.databases("sqlite", "postgres")

# The first step of each command; these tests run it in processes of its own.
PREPARE = "from crawlservice.connections.database import prepare; print(prepare(), 'prepared')"


def prepare_in(start_manage, count, env):
    """Several processes that prepare the same database at the same moment."""
    running = [start_manage("shell", "--no-imports", "-c", PREPARE, env=env) for _ in range(count)]
    for one in running:
        assert one.process.wait(60) == 0, one.output
        assert "prepared" in one.output


def is_migrated(url):
    with django_on(url):
        executor = MigrationExecutor(connection)
        return executor.migration_plan(executor.loader.graph.leaf_nodes()) == []


@pytest.mark.process
def test_processes_that_start_together_migrate_sqlite_once(start_manage, manage_env, tmp_path):
    manage_env["DATABASE_URL"] = f"sqlite:///{tmp_path}/crawl.sqlite3"
    prepare_in(start_manage, 3, manage_env)
    assert is_migrated(manage_env["DATABASE_URL"])


@pytest.mark.process
def test_a_first_start_that_is_killed_leaves_nothing_behind(manage, manage_env, tmp_path):
    """Killed after the tables of the fifth migration were made, and before that is recorded."""
    manage_env["DATABASE_URL"] = f"sqlite:///{tmp_path}/crawl.sqlite3"
    dies = (
        "import os; from django.db.migrations.recorder import MigrationRecorder as Recorder; "
        "left = list(range(5)); record = Recorder.record_applied; "
        "Recorder.record_applied = lambda *a: (left.pop(), "
        "record(*a) if left else os.kill(os.getpid(), 9)); "
    )
    assert manage("shell", "--no-imports", "-c", dies + PREPARE).returncode == -9
    again = manage("shell", "--no-imports", "-c", PREPARE)
    assert "prepared" in again.stdout, again.stderr
    assert is_migrated(manage_env["DATABASE_URL"])
    files = {path.name for path in tmp_path.glob("crawl.*")}
    assert files == {"crawl.sqlite3", "crawl.sqlite3.lock"}


@pytest.mark.process
@pytest.mark.postgres
def test_postgres_is_migrated_only_when_allowed(start_manage, manage, manage_env, new_database):
    manage_env["DATABASE_URL"] = new_database("postgres", empty=True)
    refused = manage("shell", "--no-imports", "-c", PREPARE)
    assert refused.returncode == 1
    assert "run: python manage.py migrate" in refused.stderr
    assert refused.stderr.count("\n") == 1

    manage_env["CRAWLFRAME_AUTO_MIGRATE"] = "1"
    prepare_in(start_manage, 3, manage_env)
    assert is_migrated(manage_env["DATABASE_URL"])


def test_prepared_is_left_alone(orm):
    task = Task.objects.create(spider="s", seeds=b"")
    prepare()
    assert list(Task.objects.all()) == [task]


def test_a_read_only_sqlite_says_what_to_do(new_database):
    with django_on(new_database("sqlite")), connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'crawlservice'")
        cursor.execute("PRAGMA query_only = ON")
        with pytest.raises(ConfigError, match="writable, or set CRAWLFRAME_VAR_DIR"):
            prepare()


@pytest.mark.postgres
def test_weak_postgres_settings_are_warnings(new_database):
    with django_on(new_database("postgres")):
        with connection.cursor() as cursor:
            cursor.execute("SHOW fsync")
            off = cursor.fetchone() == ("off",)
        assert any("fsync = off" in line for line in prepare()) == off
        with connection.cursor() as cursor:
            cursor.execute("SET synchronous_commit = off")
        assert any("synchronous_commit = off" in line for line in prepare())
        with connection.cursor() as cursor:
            cursor.execute("SET default_transaction_read_only = on")
        with pytest.raises(ConfigError, match="accepts no writes"):
            prepare()


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server with a guest user that needs a password."""
    server = PostgresServer()
    try:
        server.start()
        rules = server.data / "pg_hba.conf"
        rules.write_text("local all guest scram-sha-256\n" + rules.read_text())
        tell(server, "CREATE ROLE guest LOGIN PASSWORD 'secret'")
        tell(server, "SELECT pg_reload_conf()")
        yield server
    finally:
        server.stop()


def tell(server: PostgresServer, statement: str) -> None:
    with closing(psycopg2.connect(server.url)) as connection:
        connection.autocommit = True
        connection.cursor().execute(statement)


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("login", "statement", "says"),
    [
        ("guest:wrong", "", "password authentication failed.*correct DATABASE_URL"),
        ("guest:secret", "", "permission denied for schema public.*; .*GRANT ALL ON SCHEMA public"),
        (
            "guest:secret",
            "ALTER ROLE guest CONNECTION LIMIT 0",
            "too many connections.*more connections",
        ),
    ],
)
def test_a_postgres_that_does_not_let_us_says_what_to_do(server, login, statement, says):
    if statement:
        tell(server, statement)
    with (
        django_on(server.url.replace("crawlframe@", f"{login}@")),
        override_settings(AUTO_MIGRATE=True),
        pytest.raises(ConfigError, match=says),
    ):
        prepare()


@pytest.mark.postgres
def test_a_postgres_that_cannot_hold_every_page_is_refused(server):
    tell(server, "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    with (
        django_on(server.url.replace("/postgres?", "/latin?")),
        pytest.raises(ConfigError, match=r"encoding LATIN1.*create it with ENCODING 'UTF8'"),
    ):
        prepare()


@pytest.mark.postgres
def test_an_old_postgres_is_refused(server, monkeypatch):
    with django_on(server.url):
        monkeypatch.setattr(connection.features, "minimum_database_version", (99,))
        monkeypatch.setattr("django.db.backends.base.base.RAN_DB_VERSION_CHECK", set())
        with pytest.raises(ConfigError, match=r"99 or later is required.*; upgrade it, or name"):
            prepare()


@pytest.mark.postgres
def test_a_standby_is_refused(server):
    standby = server.standby()
    try:
        with (
            django_on(standby.url),
            pytest.raises(ConfigError, match=r"a replica or read-only.*let DATABASE_URL name"),
        ):
            prepare()
    finally:
        standby.stop()


def test_a_sqlite_in_use_says_so(new_database):
    url = new_database("sqlite", empty=True)
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as other:
        other.execute("PRAGMA journal_mode=WAL")
        other.execute("BEGIN IMMEDIATE")
        with (
            django_on(f"{url}?timeout=1"),
            pytest.raises(ConfigError, match=r"database is locked.*; another process has been"),
        ):
            prepare()


def refusal(url):
    """The line that a command would print."""
    with django_on(url), pytest.raises(ConfigError) as raised:
        prepare()
    told = str(raised.value)
    assert "\n" not in told
    # Django does not close a SQLite connection that it could not set up.
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        raised.value.__context__ = None
        gc.collect()
    return told


@pytest.mark.parametrize(
    ("url", "says"),
    [
        (
            "postgresql://me:secret@127.0.0.1:1/shop",
            "the database shop on 127.0.0.1 cannot be reach",
        ),
        ("sqlite:////nowhere/at/all.sqlite3", "the SQLite database /nowhere/at/all.sqlite3 cannot"),
    ],
)
def test_a_database_that_is_not_there_is_one_line(url, says):
    told = refusal(url)
    assert says in told
    assert "secret" not in told


def test_a_file_that_is_no_database_is_left_alone(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("remember the milk\n" * 100)
    told = refusal(f"sqlite:///{file}")
    assert told.startswith(f"the SQLite database {file} cannot be used")
    assert "restore a copy, or name another file in DATABASE_URL" in told
    assert file.read_text() == "remember the milk\n" * 100


def test_a_lock_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "crawl.sqlite3.lock").mkdir()
    told = refusal(f"sqlite:///{tmp_path}/crawl.sqlite3")
    assert "cannot be used: [Errno 21] Is a directory" in told
