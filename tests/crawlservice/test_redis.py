"""frontier(): one per process and thread, on REDIS_URL or the embedded server."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import OperationalError

from crawlframe.embedded import server
from crawlframe.errors import ConfigError, FrontierError
from crawlframe.frontier import TaskLimits
from crawlservice.connections import database, frontier, installation


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    for name in ("_frontiers", "_next_check", "_known"):
        monkeypatch.setattr(frontier, name, {})


def test_one_frontier_per_process(settings_with, redis_url):
    settings_with(REDIS_URL=redis_url)
    mine = frontier.frontier()
    assert frontier.frontier() is mine
    readable, writable = os.pipe()
    if os.fork() == 0:
        try:
            theirs = frontier.frontier()
            os.write(
                writable, b"own" if theirs is not mine and theirs.store.redis.ping() else b"shared"
            )
        finally:
            os._exit(0)
    os.wait()
    assert os.read(readable, 10) == b"own"
    os.close(readable)
    os.close(writable)
    assert mine.store.redis.ping()


def test_threads_that_write_at_the_same_time_do_not_doubt_the_era(
    settings_with, redis_url, redis_client
):
    """A shared frontier would count calls that Redis has not received."""
    settings_with(REDIS_URL=redis_url)
    together = Barrier(8)

    def write(thread: int) -> None:
        together.wait(60)
        for n in range(50):
            frontier.frontier().open_task(1000 * thread + n + 1, TaskLimits(), [])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    assert [era.state for era in frontier.frontier().eras.read()] == ["open"]
    assert len(list(frontier.frontier().open_tasks())) == 400


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "http://127.0.0.1", "nonsense"])
def test_a_server_that_is_not_there_is_named(settings_with, url):
    settings_with(REDIS_URL=url)
    with pytest.raises(FrontierError, match=rf"{url}.*REDIS_URL"):
        frontier.frontier()


def test_a_network_file_system_is_refused(settings_with, monkeypatch, tmp_path):
    settings_with(REDIS_URL="", VAR_DIR=tmp_path)
    monkeypatch.setattr(server, "network_filesystem", lambda path: "nfs4")
    with pytest.raises(ConfigError, match=r"network file system \(nfs4\).*REDIS_URL"):
        frontier.redis_url()


@pytest.mark.process
def test_without_a_url_a_private_server_runs_while_the_command_does(manage, manage_env):
    del manage_env["REDIS_URL"]
    code = (
        "from crawlservice.connections.frontier import *; "
        "print(redis_url(), frontier().store.redis.ping())"
    )
    outcome = manage("shell", "--no-imports", "-c", code)
    assert outcome.stdout.startswith(f"unix://{manage_env['CRAWLFRAME_VAR_DIR']}/redis/redis.sock")
    assert "True" in outcome.stdout


def test_a_database_that_does_not_answer_is_asked_once_for_many_calls(
    service, monkeypatch: pytest.MonkeyPatch
):
    asked = []

    def hang():
        asked.append(1)
        raise OperationalError("timeout expired")

    monkeypatch.setattr(database, "is_there", hang)
    for _ in range(5):
        frontier.frontier()
    assert len(asked) == 0, "it was checked just now"
    frontier._next_check.clear()
    frontier._known.clear()
    for _ in range(5):
        frontier.frontier()
    assert len(asked) == 1


def test_the_database_is_not_asked_while_redis_says_the_same(
    service, monkeypatch: pytest.MonkeyPatch
):
    asked = []
    real = installation.of_database

    def ask() -> str:
        asked.append(1)
        return real()

    monkeypatch.setattr(installation, "of_database", ask)
    frontier.frontier()
    for _ in range(3):
        frontier._next_check.clear()
        frontier.frontier()
    assert asked == []
    monkeypatch.setattr(frontier, "REREAD", 0.0)
    frontier._known.clear()
    frontier._next_check.clear()
    frontier.frontier()
    frontier._next_check.clear()
    frontier.frontier()
    assert len(asked) == 2, "it may have got another id"
