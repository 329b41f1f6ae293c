"""Assignment of orders to pages, and renewal of browsers and contexts; no browser is needed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from crawlframe.conf import Settings
from crawlframe.errors import BrowserLost
from crawlframe.fetch.browser.orders import Profile

pages = pytest.importorskip("crawlframe.fetch.browser.pages", reason="no playwright here")

ORIGIN = "http://a.test"


class Browser:
    """A stand-in for Chromium."""

    made: list[Browser] = []

    def __init__(self) -> None:
        self.lost = asyncio.Event()
        self.served = 0
        self.born = time.monotonic()
        self.memory = 0
        self.closed = False
        Browser.made.append(self)

    @classmethod
    async def start(cls, program: str, directory: Path) -> Browser:
        return cls()

    @property
    def ended(self) -> bool:
        return self.lost.is_set()

    async def close(self) -> None:
        self.closed = True


class Tab:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.served = 0


class Context:
    made: list[Context] = []
    closes = True  # whether its pages can be closed
    stuck = False  # whether none can be opened

    def __init__(self, browser: Browser, profile: Profile, names: Any, guard: Any) -> None:
        self.browser, self.profile = browser, profile
        self.users, self.used = 0, time.monotonic()
        self.idle = 0
        self.closed = False
        Context.made.append(self)

    async def tab(self, origin: str) -> Tab:
        if self.stuck:
            await asyncio.sleep(3600)
        return Tab(self)

    async def give_back(self, tab: Tab, *, keep: bool) -> bool:
        self.idle += keep
        return self.closes

    async def close_idle_tabs(self) -> None:
        self.idle = 0

    async def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def _fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "Chromium", Browser)
    monkeypatch.setattr(pages, "Context", Context)
    monkeypatch.setattr(pages, "find_browser", lambda settings: "/chromium")
    Browser.made, Context.made = [], []
    Context.closes, Context.stuck = True, False


def profile(owner: str = "1") -> Profile:
    return Profile(owner, "", "", None, False)


def run(job: Callable[[Any], Coroutine[Any, Any, None]], **settings: Any) -> None:
    async def main() -> None:
        given = Settings(**{"browser_pages": 2, "browser_memory": 100, **settings})
        async with asyncio.timeout(20):
            await job(pages.Pages(given, None, Path("/nowhere")))

    asyncio.run(main())


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_orders_have_their_turn_as_they_came() -> None:
    async def job(host: Any) -> None:
        turns: list[int] = []

        async def order(number: int) -> Any:
            tab = await host.take(profile(), ORIGIN)
            turns.append(number)
            return tab

        orders = [asyncio.ensure_future(order(n)) for n in range(5)]
        await settle()
        assert turns == [0, 1]
        orders[2].cancel()
        await host.give_back(await orders[0], whole=True)
        await settle()
        assert turns == [0, 1, 3]
        await host.give_back(await orders[1], whole=True)
        await settle()
        assert turns == [0, 1, 3, 4]
        assert len(Browser.made) == len(Context.made) == 1

    run(job)


def test_a_turn_that_comes_with_its_cancellation_goes_to_the_next() -> None:
    async def job(host: Any) -> None:
        first = await host.take(profile(), ORIGIN)
        second, third = (asyncio.ensure_future(host.take(profile(), ORIGIN)) for _ in range(2))
        await settle()
        giving = asyncio.ensure_future(host.give_back(first, whole=True))
        second.cancel()
        await giving
        await settle()
        assert third.done()
        assert host.running == 1

    run(job, browser_pages=1)


def test_above_its_memory_it_renders_one_page_at_a_time() -> None:
    async def job(host: Any) -> None:
        first = await host.take(profile(), ORIGIN)
        host.memory = 200 << 20
        second = asyncio.ensure_future(host.take(profile(), ORIGIN))
        await settle()
        assert not second.done()
        await host.give_back(first, whole=True)
        await host.give_back(await second, whole=True)

    run(job)


def test_then_idle_pages_are_closed_and_the_browser_is_renewed() -> None:
    async def job(host: Any) -> None:
        running = await host.take(profile("1"), ORIGIN)
        idle = await host.take(profile("2"), ORIGIN)
        await host.give_back(idle, whole=True)
        host.memory = 85 << 20
        host._look(time.monotonic())
        await settle()
        assert idle.context.closed
        assert not running.context.closed
        host.memory = 101 << 20
        host._look(time.monotonic())
        await settle()
        assert not Browser.made[0].closed  # one page renders
        host.memory = 0
        other = await host.take(profile("1"), ORIGIN)
        assert other.context.browser is Browser.made[1]
        await host.give_back(running, whole=True)
        await settle()
        assert Browser.made[0].closed
        assert running.context.closed
        assert not Browser.made[1].closed

    run(job)


@pytest.mark.parametrize("what", ["served", "born"])
def test_a_browser_is_renewed_for_its_pages_and_its_age(what: str) -> None:
    async def job(host: Any) -> None:
        first = await host.take(profile(), ORIGIN)
        values = {"served": pages.MAX_SERVED, "born": time.monotonic() - pages.MAX_AGE - 1}
        setattr(Browser.made[0], what, values[what])
        second = await host.take(profile(), ORIGIN)
        assert second.context.browser is not first.context.browser
        await settle()
        assert not Browser.made[0].closed
        await host.give_back(first, whole=True)
        await settle()
        assert Browser.made[0].closed

    run(job)


def test_a_browser_that_ended_is_replaced() -> None:
    async def job(host: Any) -> None:
        first = await host.take(profile(), ORIGIN)
        Browser.made[0].lost.set()
        await host.give_back(first, whole=False)
        second = await host.take(profile(), ORIGIN)
        assert second.context.browser is Browser.made[1]

    run(job)


def test_so_is_one_whose_pages_do_not_close() -> None:
    async def job(host: Any) -> None:
        first = await host.take(profile(), ORIGIN)
        Context.closes = False
        await host.give_back(first, whole=False)
        await settle()
        assert Browser.made[0].closed
        assert host.running == 0

    run(job)


def test_one_that_opens_no_page_counts_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "OPEN_SECONDS", 0.01)

    async def job(host: Any) -> None:
        Context.stuck = True
        with pytest.raises(BrowserLost, match=r"within 0\.01 s"):
            await host.take(profile(), ORIGIN)
        Context.stuck = False
        tab = await host.take(profile(), ORIGIN)
        assert tab.context.browser is Browser.made[1]
        assert host.running == 1

    run(job)


def test_contexts_are_closed_when_they_are_many_or_idle() -> None:
    async def job(host: Any) -> None:
        for number in range(pages.MAX_CONTEXTS + 3):
            await host.give_back(await host.take(profile(str(number)), ORIGIN), whole=True)
        await settle()
        assert [one.profile.owner for one in Context.made if one.closed] == ["0", "1", "2"]
        host._look(time.monotonic() + pages.IDLE_SECONDS + 1)
        await settle()
        assert all(one.closed for one in Context.made)

    run(job)


def test_idle_tabs_are_no_more_than_pages() -> None:
    async def job(host: Any) -> None:
        for number in range(5):
            await host.give_back(await host.take(profile(str(number)), ORIGIN), whole=True)
            await settle()
        assert [one.idle for one in Context.made] == [0, 0, 0, 1, 1]

    run(job)
