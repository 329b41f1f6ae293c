"""Stores: what a worker knows of database and Redis, and how it follows their changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from redis.exceptions import ConnectionError

from crawlframe.base.secret import Secret
from crawlframe.errors import ConfigError
from crawlframe.identity.credentials import Credential
from crawlframe.identity.identity import Identity, Papers
from crawlframe.node.worker.commit.stores import Stores
from crawlframe.node.worker.fetch import rendering
from crawlframe.node.worker.fetch.rendering import IDLE_SECONDS, StoredRenders
from crawlframe.node.worker.task import task_source
from crawlframe.node.worker.task.task_source import StoredTasks
from crawlframe.render.knowledge import LIFE, STREAK, UNKNOWN, Knowledge, URLTemplate
from crawlframe.run.ledger import LedgerAway

PAGE = URLTemplate("parse", "shop.example/*")
KNOWN = Knowledge(browser=9, streak=STREAK, used=1_000)


def papers(secret: str) -> Papers:
    return Papers(credentials=(Credential("a.org", "bearer", "", Secret(secret)),))


class World:
    """Database and Redis, and the commit thread, which answers at once. ``away``: is raised."""

    def __init__(self) -> None:
        self.away: Exception | None = None
        self.papers = papers("one")
        self.numbers: dict[str, int] = {}
        self.found = {PAGE: KNOWN}
        self.reads: list[Any] = []
        self.tasks = self.access = self.renders = self
        here: Any = self
        self.stores = Stores(here, here, here)

    def call(self, job: Callable[[], None]) -> None:
        job()

    def leave(self) -> None:
        raise AssertionError

    def _read(self, what: object) -> None:
        self.reads.append(what)
        if self.away is not None:
            raise self.away

    def identity(self) -> Papers:
        self._read("identity")
        return self.papers

    def recipe_numbers(self, names: set[str]) -> dict[str, int]:
        self._read(names)
        return self.numbers

    def of(self, spider: str) -> dict[URLTemplate, Knowledge]:
        self._read(spider)
        return dict(self.found)

    def spec(self, task: int) -> None:
        return None


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    for module, name in (
        (task_source, "IDENTITY_SECONDS"),
        (task_source, "RECIPES_SECONDS"),
        (rendering, "READ_SECONDS"),
    ):
        monkeypatch.setattr(module, name, 0.0)
    return World()


async def once(watch: Any) -> None:
    """Lets it look at least once."""
    task = asyncio.ensure_future(watch)
    for _ in range(12):
        await asyncio.sleep(0)
    task.cancel()


# -- keys and credentials -------------------------------------------------------------------------


@pytest.fixture
def identity() -> Identity:
    return Identity()


@pytest.fixture
def tasks(world: World, identity: Identity) -> StoredTasks:
    maker: Any = None
    return StoredTasks(world.stores, maker, identity)


def sent(identity: Identity) -> str:
    return dict(identity.headers_for("https://a.org/", "GET", [])).get("Authorization", "")


def test_credentials_are_loaded_once_before_the_first_fetch(
    world: World, tasks: StoredTasks, identity: Identity
) -> None:
    for error in (LedgerAway("away"), ConfigError("another key")):
        world.away = error
        with pytest.raises(type(error)):
            tasks._task(1)
    assert not identity.is_loaded
    world.away = None
    tasks._task(1)
    tasks._task(1)
    assert (sent(identity), len(world.reads)) == ("Bearer one", 3)


def test_changes_of_credentials_are_followed(
    world: World, tasks: StoredTasks, identity: Identity, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        await once(tasks.watch_identity())
        assert world.reads == []  # no task, nothing to fetch yet
        tasks._task(1)
        world.papers = papers("two")
        await once(tasks.watch_identity())
        assert sent(identity) == "Bearer two"
        for error in (LedgerAway("away"), ConfigError("another key")):
            world.away = error
            await once(tasks.watch_identity())
            assert sent(identity) == "Bearer two"
            assert f"keys and credentials stay as they were: {error}" in caplog.text

    asyncio.run(main())


# -- recipes --------------------------------------------------------------------------------------


def test_tasks_of_a_changed_recipe_are_opened_again(world: World, tasks: StoredTasks) -> None:
    forgotten: list[int] = []

    async def look() -> list[int]:
        await once(tasks.watch_recipes(forgotten.append))
        return forgotten

    async def main() -> None:
        await look()
        assert world.reads == []  # there is no recipe
        for task, recipe in enumerate([("books", 1), ("news", 4), ("books", 2), ("gone", 1)], 1):
            tasks._recipes[task] = recipe
        world.numbers = {"books": 2, "news": 4}
        world.away = LedgerAway("away")
        assert await look() == []
        world.away = None
        assert await look() == [1]
        assert world.reads[0] == {"books", "news", "gone"}
        assert await look() == [1]  # it has ended meanwhile: nothing opens it again

    asyncio.run(main())


# -- templates that need the browser --------------------------------------------------------------


class Renders:
    def __init__(self, world: World) -> None:
        self.now = 1.0
        self.stored = StoredRenders(world.stores, clock=lambda: self.now)

    def find(self, template: URLTemplate = PAGE) -> Knowledge:
        return asyncio.run(self.stored.find("shop", template))

    def look(self) -> None:
        asyncio.run(once(self.stored.watch()))


@pytest.fixture
def renders(world: World) -> Renders:
    return Renders(world)


def test_a_spider_is_read_once_and_then_followed(world: World, renders: Renders) -> None:
    assert renders.find() == renders.find() == KNOWN
    assert renders.find(URLTemplate("parse", "other.example/*")) == UNKNOWN
    assert world.reads == ["shop"]
    world.found[PAGE] = KNOWN._replace(streak=0)
    renders.look()
    assert renders.find().streak == 0
    world.away = ConnectionError("Redis is away")
    renders.look()
    assert renders.find().streak == 0
    world.away = None
    world.found.clear()
    renders.look()
    assert renders.find() == UNKNOWN


def test_a_spider_that_is_not_used_is_let_go(world: World, renders: Renders) -> None:
    renders.look()
    assert world.reads == []
    renders.find()
    renders.now += IDLE_SECONDS + 1
    renders.look()
    assert world.reads == ["shop"]
    renders.find()
    assert world.reads == ["shop", "shop"]


def test_pages_that_begin_are_counted_until_the_next_read(renders: Renders) -> None:
    renders.find()
    for _ in range(KNOWN.pause):
        assert renders.find().leaves_out_plain()
        renders.stored.begin("shop", PAGE, direct=True)
    assert not renders.find().leaves_out_plain()
    renders.stored.begin("shop", PAGE, direct=False)
    assert renders.find().leaves_out_plain()
    renders.stored.begin("shop", PAGE, direct=True)
    renders.look()
    assert renders.find() == KNOWN


def test_knowledge_holds_for_a_time(renders: Renders) -> None:
    renders.find()
    renders.now = (KNOWN.used + LIFE + 1) / 1000
    assert renders.find() == UNKNOWN
