"""Events on a page after its order is carried out. No browser is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("playwright.async_api", reason="no playwright here")

from crawlframe.errors import ActionFailed, FetchTimeout, PageCrashed
from crawlframe.fetch.browser.documents import Document
from crawlframe.fetch.browser.orders import Done, Order, Profile
from crawlframe.fetch.browser.visit import TabVisit
from crawlframe.response.browser_response import Rendered

URL = "http://shop.example/"


class Page:
    """A page that is photographed; ``meanwhile`` runs then."""

    url = URL
    meanwhile: Callable[[], None] = staticmethod(lambda: None)

    def remove_listener(self, *event: object) -> None:
        pass

    async def screenshot(self, **how: Any) -> bytes:
        self.meanwhile()
        await asyncio.sleep(0)
        return b"picture"


class Ran(TabVisit):
    """The order is carried out, or fails."""

    def __init__(self, error: ActionFailed | None = None, hold: float = 0) -> None:
        self.page = Page()
        browser = SimpleNamespace(lost=asyncio.Event(), ended=False)
        context: Any = SimpleNamespace(browser=browser)
        tab: Any = SimpleNamespace(page=self.page, cdp=None, frame="main", context=context)
        profile = Profile("1", "", "", None, trackers=False)
        order = Order(
            1, profile, URL, "GET", None, [], None, 1.0, 1000, [], 0.0, True, [], picture=True,
            hold=hold,
        )  # fmt: skip
        super().__init__(tab, order, may_send=_never, may_go=_never)
        self._error = error

    def crash(self) -> None:
        self._on_crash(self.page)

    async def _run(self) -> Done:
        self._task = asyncio.current_task()
        self.whole = True
        if self._error is not None:
            self._documents.answer = Document(URL, 200, [])
            raise self._error
        return Done(1, URL, 200, [], b"", "", [], Rendered())


async def _never(*given: object) -> Any:
    raise AssertionError


def test_a_page_that_ends_while_its_picture_is_taken_costs_nothing() -> None:
    async def main() -> None:
        visit = Ran()
        visit.page.meanwhile = visit.crash
        done = await visit.run()
        assert done.rendered.picture == b"picture"
        await visit.close()

    asyncio.run(main())


def test_nor_does_it_hide_why_the_order_has_failed() -> None:
    async def main() -> None:
        visit = Ran(ActionFailed("no button"))
        visit.page.meanwhile = visit.crash
        with pytest.raises(ActionFailed, match="no button") as caught:
            await visit.run()
        assert caught.value.picture == b"picture"
        await visit.close()

    asyncio.run(main())


@pytest.mark.parametrize("before", [True, False])
def test_a_page_that_is_kept_ends_with_its_renderer(before: bool) -> None:
    """Also with one that crashed while the answer was sent."""

    async def main() -> None:
        visit = Ran(hold=60)
        await visit.run()
        assert visit.may_hold
        if before:
            visit.crash()
        else:
            asyncio.get_running_loop().call_soon(visit.crash)
        with pytest.raises(PageCrashed):
            await visit.hold()
        assert not visit.whole
        await visit.close()

    asyncio.run(main())


def test_a_held_page_is_kept_for_a_time() -> None:
    async def main() -> None:
        visit = Ran(hold=0.01)
        await visit.run()
        with pytest.raises(FetchTimeout, match=r"kept for 0\.01 s"):
            await visit.hold()
        await visit.close()

    asyncio.run(main())
