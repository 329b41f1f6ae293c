"""kill -9 of exports, again and again: every row once, in order. EXPORT_KILLS=500: long."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg2
import pytest
from django.conf import settings

from crawlframe.base import faults
from crawlservice.exports import changes
from crawlservice.exports.definition import Definition
from crawlservice.models import Export, Item, Page, Task
from tests.conftest import CHECKOUT, NewDatabase, Running
from tests.crawlservice.exporting import add, fill, made_task, records, stored
from tests.crawlservice.test_export_targets import table_url
from tests.process.conftest import Look, OddWeb, Submit, wait_for

KILLS = int(os.environ.get("EXPORT_KILLS", "16"))
SEED = int(os.environ.get("SEED", "1"))
POINTS = [point for point in faults.POINTS if point.startswith("export.")]

pytestmark = pytest.mark.process


@pytest.fixture
def place(tmp_path: Path, settings_with: Callable[..., None]) -> Path:
    settings_with(EXPORT_DIR=tmp_path)
    return tmp_path


@pytest.fixture
def target(new_database: NewDatabase) -> Iterator[tuple[str, psycopg2.extensions.connection]]:
    """Another PostgreSQL database, as the URL of a target and as a connection."""
    url = new_database("postgres", empty=True)
    connection = psycopg2.connect(url)
    connection.autocommit = True
    host = connection.get_dsn_parameters().get("host", "")
    yield table_url(url, host if host.startswith("/") else ""), connection
    connection.close()


class Killable:
    """The program that exports; one process of it at a time."""

    def __init__(self, env: dict[str, str]) -> None:
        self._program = subprocess.Popen(
            [sys.executable, "-m", "tests.process.exporting"],
            cwd=CHECKOUT, env={**env, "CRAWLFRAME_WEBHOOK_PRIVATE": "127.0.0.0/8"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip

    def start(self, fault: str = "-") -> int:
        assert self._program.stdin is not None
        self._program.stdin.write(f"{fault}\n")
        self._program.stdin.flush()
        return int(self._answer())

    def gone(self) -> None:
        assert self._answer() == "gone"

    def close(self) -> None:
        os.killpg(self._program.pid, signal.SIGKILL)
        self._program.communicate()

    def _answer(self) -> str:
        assert self._program.stdout is not None
        return self._program.stdout.readline().strip()


@pytest.mark.databases("postgres")
@pytest.mark.timeout(1800)
def test_kills_neither_lose_nor_double_nor_halve(
    orm: str,
    place: Path,
    manage_env: dict[str, str],
    target: tuple[str, psycopg2.extensions.connection],
) -> None:
    url, connection = target
    _add(url)
    chance = random.Random(SEED)
    program = Killable(_env(manage_env, orm, place))
    task = made_task()
    try:
        for kill in range(KILLS):
            fill(task, chance.randint(1, 6), start=100 * kill)
            if kill % 3:
                program.start(f"{chance.choice(POINTS)}:{chance.randint(1, 4)}:kill")
                fill(task, 3, start=100 * kill + 50)  # so that each point is reached
                _feed_until_gone(program, task, 100 * kill + 60)
            else:
                child = program.start()
                time.sleep(chance.random() * 0.08)
                os.kill(child, signal.SIGKILL)
                program.gone()
        child = program.start()
        wait_for(_done)
        os.kill(child, signal.SIGKILL)
        program.gone()
    finally:
        program.close()
    assert Item.objects.count() > KILLS
    _check(place, connection)


@pytest.mark.databases("postgres")
@pytest.mark.timeout(1800)
def test_two_leaders_at_once_that_are_killed_in_turn(
    orm: str,
    place: Path,
    manage_env: dict[str, str],
    target: tuple[str, psycopg2.extensions.connection],
) -> None:
    """A steward that was cut off exports for a minute beside the next leader."""
    url, connection = target
    _add(url)
    chance = random.Random(SEED)
    task = made_task()
    programs = [Killable(_env(manage_env, orm, place)) for _ in range(2)]
    try:
        children = [program.start() for program in programs]
        for kill in range(KILLS):
            fill(task, chance.randint(1, 9), start=100 * kill)
            time.sleep(chance.random() * 0.1)
            turn = kill % 2
            os.kill(children[turn], signal.SIGKILL)
            programs[turn].gone()
            children[turn] = programs[turn].start()
        wait_for(_done)
    finally:
        for program in programs:
            program.close()
    _check(place, connection)


def _add(url: str) -> None:
    """Exports of items and pages to files, and of items to a table."""
    files = {"kind": "files", "max_minutes": 0, "max_rows": 7}
    add({**files, "url": "items"}, name="items")
    add({**files, "url": "pages", "gzip": True}, name="pages", what="pages")
    add({"kind": "table", "url": url, "table": "rows"}, name="rows")


def _env(env: dict[str, str], database: str, place: Path) -> dict[str, str]:
    """The environment with our key, which seals the address of the table."""
    more = {"CRAWLFRAME_SECRET_KEY": settings.SECRET_KEY, "DATABASE_URL": database}
    return {**env, **more, "CRAWLFRAME_EXPORT_DIR": str(place)}


def _check(place: Path, connection: psycopg2.extensions.connection) -> None:
    """Every row is in each target once, whole and in order."""
    expected = stored()
    found = records(place / "items")
    assert [one["n"] for one in found] == expected
    assert len({one["_key"] for one in found}) == len(found)
    pages = [*Page.objects.order_by("pk").values_list("url", flat=True)]
    assert [one["url"] for one in records(place / "pages")] == pages
    with connection.cursor() as cursor:
        cursor.execute("SELECT n FROM rows ORDER BY _item")
        assert [n for (n,) in cursor.fetchall()] == expected
    assert not Export.objects.exclude(problem="").exists()


def _feed_until_gone(program: Killable, task: Task, start: int) -> None:
    """The fault strikes at the nth batch; there are more until then."""
    gone = threading.Event()

    def wait() -> None:
        program.gone()
        gone.set()

    waiter = threading.Thread(target=wait)
    waiter.start()
    n = start
    while not gone.wait(0.05):
        fill(task, 1, start=n)
        n += 1
    waiter.join()


def _done() -> bool:
    items, pages = Item.objects.count(), Page.objects.count()
    rows = dict(Export.objects.values_list("name", "rows"))
    return bool(rows == {"items": items, "pages": pages, "rows": items})


@pytest.mark.parametrize("points", [POINTS[1::2], pytest.param(POINTS, marks=pytest.mark.long)])
def test_stewards_that_are_killed_are_followed_by_others(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    submit: Submit,
    look: Look,
    place: Path,
    web: OddWeb,
    points: list[str],
) -> None:
    """The export is carried on by the next steward of a real node."""
    marks = place / "marks"
    marks.mkdir()
    struck = [f"{point}:{1 + n % 2}:kill" for n, point in enumerate(points)]
    odd_env |= {"FAULT": ",".join(struck), "FAULT_MARKS": str(marks)}
    odd_env["CRAWLFRAME_EXPORT_DIR"] = str(place)
    web.pages["/"] = [f"/page/{n}" for n in range(40)]
    goal = {"kind": "files", "url": "items", "max_minutes": 0, "max_rows": 3}
    changes.add(Definition.model_validate({"name": "items", "target": goal}))
    start_manage("runcrawler", "--node", "one", "--workers", 1)
    pk = submit("odd", url=web.url)
    look.wait(pk)
    wait_for(lambda: Export.objects.get().rows == len(look.items(pk)) == 41)
    assert len([*marks.iterdir()]) == len(points)
    found = records(place / "items")
    ids = [*Item.objects.order_by("pk").values_list("pk", flat=True)]
    assert [one["_item"] for one in found] == ids
