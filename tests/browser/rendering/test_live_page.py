"""``await response.page()``: the page of a request in its callback, in a real browser."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from crawlframe.actions import Fill, KeepPage
from crawlframe.base.stats import RUNNING
from crawlframe.conf import Settings
from crawlframe.errors import (
    ActionFailed,
    BadRedirect,
    BodyTooLarge,
    BrowserLost,
    FetchError,
    FetchTimeout,
    PageClosed,
    PageCrashed,
    PageOpen,
)
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.journey.context import FetchContext, SendTime
from crawlframe.fetch.journey.cookies import TaskCookies
from crawlframe.request.request import Request
from crawlframe.response.live_page import LivePage, Navigation
from crawlframe.spider.settings import SpiderSettings
from tests.fetch.conftest import LOOPBACK

from .conftest import QUICK, Browser, Host, Site, html, of_task, paths

PAGE = """<title>shop</title><input id=name aria-label=Name><button>Add</button><ul></ul>
<a href=/next>next</a> <a href=http://localhost:1/>away</a> <a href=/zip download>zip</a>
<script>
document.querySelector("button").onclick = () => setTimeout(() => {
  const item = document.createElement("li");
  item.textContent = document.querySelector("input").value;
  document.querySelector("ul").append(item);
  document.cookie = "cart=" + item.textContent;
}, 100);
</script>"""


def use(
    browser: Browser, site: Site, callback: Any, *actions: Any, kept: float = 20.0, **more: Any
) -> Any:
    """Fetches "/" and awaits the callback with the page, as a worker does. ``kept``: seconds."""
    html(site, "/", PAGE)

    async def job(downloader: Downloader) -> Any:
        own = SpiderSettings(**{**QUICK, "timeout": 20.0, "max_body": more.pop("max_body", 10**6)})
        request = Request(f"{site.url}/", actions=[*actions, KeepPage()])
        with downloader.memory.account() as account:
            response = await downloader.fetch(
                request, own, FetchContext(account=account, spider=browser._spider, **more)
            )
            return await callback(await response.page(), response, downloader)

    return browser.run(job, deadline=kept)


def test_each_further_document_waits_for_its_turn_at_the_host(browser: Browser, site: Site) -> None:
    html(site, "/next", "<p>next")
    send_time, turns = SendTime(), []

    @contextlib.asynccontextmanager
    async def turn_at(url: str) -> AsyncIterator[None]:
        turns.append((url, paths(site)))
        yield

    async def callback(page: LivePage, response: Any, _: Any) -> None:
        assert turns == []
        await page.goto(f"{site.url}/next")

    send_time.turn_at = turn_at
    use(browser, site, callback, send_time=send_time)
    assert turns == [(f"{site.url}/next", ["/"])]


def test_it_is_the_page_that_was_rendered_and_has_the_api_of_playwright(
    browser: Browser, site: Site
) -> None:
    async def callback(page: LivePage, response: Any, _: Any) -> None:
        assert await page.input_value("#name") == "Ulm"
        await page.get_by_role("button", name=re.compile("add", re.IGNORECASE)).click()
        await page.locator("li").first.wait_for()
        assert await page.locator("li").all_text_contents() == ["Ulm"]
        assert [await one.inner_text() for one in await page.locator("li").all()] == ["Ulm"]
        assert await page.evaluate("n => ({twice: [2 * n]})", 4) == {"twice": [8]}
        assert await page.wait_for_selector("li") is None  # a handle cannot be sent
        await page.keyboard.press("Tab")
        assert "<li>Ulm</li>" in await page.content()
        assert "<li>" not in response.text
        assert (await page.screenshot(type="jpeg"))[:2] == b"\xff\xd8"
        both = await asyncio.gather(page.title(), page.evaluate("1 + 1"))
        assert [*both] == ["shop", 2]

    use(browser, site, callback, Fill("#name", "Ulm"))
    assert paths(site) == ["/"]


def test_it_goes_to_pages_of_its_host(browser: Browser, site: Site) -> None:
    html(site, "/next", "<title>next</title>")

    async def callback(page: LivePage, *_: Any) -> None:
        await page.click("text=next")
        await page.wait_for_url("**/next")
        assert page.url == f"{site.url}/next"
        assert await page.title() == "next"
        assert await page.goto("/") == Navigation(f"{site.url}/", 200)
        for url in ("http://localhost:1/", "file:///etc/passwd", "chrome://version"):
            with pytest.raises(ActionFailed, match=r"another host|no http"):
                await page.goto(url)
        assert await page.title() == "shop"
        gone = asyncio.ensure_future(page.wait_for_timeout(10_000))
        with contextlib.suppress(BadRedirect):
            await page.click("text=away")
        with pytest.raises(BadRedirect, match="another host"):
            await gone
        with pytest.raises(BadRedirect):
            await page.title()

    use(browser, site, callback)


def test_what_its_check_refuses_is_not_sent(browser: Browser, site: Site) -> None:
    async def check(url: str) -> None:
        if url.endswith("/next"):
            raise BodyTooLarge("not this one")

    async def callback(page: LivePage, *_: Any) -> None:
        with pytest.raises(ActionFailed, match="not this one"):
            await page.goto("/next")
        assert await page.title() == "shop"

    use(browser, site, callback, check=check)
    assert paths(site) == ["/"]


def test_cookies_that_it_sets_are_those_of_the_task(browser: Browser, site: Site) -> None:
    jar = TaskCookies()

    async def callback(page: LivePage, *_: Any) -> None:
        await page.fill("#name", "Ulm")
        await page.get_by_text("Add").click()
        await page.wait_for_selector("li")

    use(browser, site, callback, jar=jar)
    assert "cart=Ulm" in (jar.header_for(f"{site.url}/", {}, "") or "")


def test_what_cannot_be_done_is_named(browser: Browser, site: Site) -> None:
    async def callback(page: Any, *_: Any) -> None:
        with pytest.raises(AttributeError, match=r"the page of response.page\(\) has no 'route'"):
            await page.route("**", None)
        with pytest.raises(TypeError, match=r"page\.screenshot: path would be a file"):
            await page.screenshot(path="/tmp/x.png")
        with pytest.raises(TypeError, match=r"page\.evaluate: an argument cannot be sent"):
            await page.evaluate("x", object())
        with pytest.raises(TypeError, match="chain the locators"):
            page.locator("li").filter(has=page.locator("b"))
        with pytest.raises(ActionFailed, match=r"page\.locator\.click: .*Timeout 100ms"):
            await page.locator(".none").click(timeout=100)
        with pytest.raises(ActionFailed, match=r"page\.click: TypeError"):
            await page.click("a", colour="red")
        with pytest.raises(BodyTooLarge, match="more than max_body"):
            await page.evaluate("'x'.repeat(200000)")
        with pytest.raises(ActionFailed, match=r"page\.evaluate: .*nothing"):
            await page.evaluate("nothing()")
        for words in ("Target page has been closed", "Page crashed"):  # the script says so, only
            with pytest.raises(ActionFailed, match=words):
                await page.evaluate("words => { throw new Error(words) }", words)
        assert await page.title() == "shop"

    use(browser, site, callback, max_body=100_000)


def test_it_is_gone_after_the_callback(browser: Browser, site: Site) -> None:
    kept: list[Any] = []

    async def callback(page: LivePage, response: Any, _: Any) -> None:
        kept.extend((page, response))

    use(browser, site, callback)
    page, response = kept
    assert page.is_closed()
    with pytest.raises(PageClosed, match="until its callback ends"):
        asyncio.run(page.title())
    with pytest.raises(PageClosed, match="until its callback ends"):
        asyncio.run(response.page())


def test_a_response_without_one_says_how_to_have_one(browser: Browser, site: Site) -> None:
    html(site, "/", PAGE)
    response = browser.fetch(f"{site.url}/")
    with pytest.raises(PageClosed, match=r"not kept; yield Request\(url, actions=\[KeepPage"):
        asyncio.run(response.page())


def test_it_takes_one_of_the_pages_and_gives_it_back(single: Host, site: Site) -> None:
    html(site, "/", PAGE)
    html(site, "/other", "<p>other</p>")

    async def callback(page: LivePage, response: Any, downloader: Downloader) -> None:
        own = SpiderSettings(**QUICK)
        request = Request(f"{site.url}/other", downloader="browser")
        other = asyncio.ensure_future(
            downloader.fetch(request, own, FetchContext(spider=of_task(9)))
        )
        await page.wait_for_timeout(300)
        assert "/other" not in paths(site)
        await page.close()
        assert page.is_closed()
        assert (await other).css("p::text").get() == "other"

    use(Browser(single), site, callback)


def test_no_other_request_gets_its_tab(browser: Browser, site: Site) -> None:
    async def callback(page: LivePage, *_: Any) -> None:
        await page.add_init_script("window.left = 1")
        await page.evaluate("window.left = 1")

    use(browser, site, callback)
    html(site, "/", "<p id=out></p><script>out.textContent = String(window.left)</script>")
    assert browser.fetch(f"{site.url}/").css("#out::text").get() == "undefined"


def test_one_that_is_kept_for_too_long_is_closed(browser: Browser, site: Site) -> None:
    html(site, "/", PAGE)

    async def job(downloader: Downloader) -> None:
        request = Request(f"{site.url}/", actions=[KeepPage()])
        with downloader.memory.account() as account:
            response = await downloader.fetch(
                request, SpiderSettings(**QUICK), FetchContext(account=account)
            )
            page = await response.page()
            with pytest.raises(FetchTimeout, match=r"kept for 0\.5 s"):
                await page.wait_for_timeout(20_000)

    browser.run(job, deadline=0.5)


def test_the_end_of_the_browser_is_that_of_the_fetch(browser: Browser, site: Site) -> None:
    async def callback(page: LivePage, *_: Any) -> None:
        browser.host.chromium.kill()
        with pytest.raises(BrowserLost) as caught:
            await page.wait_for_timeout(20_000)
        assert caught.value.of_page
        with pytest.raises(BrowserLost):
            await page.title()

    use(browser, site, callback)
    assert browser.fetch(f"{site.url}/").ok


def test_a_page_that_closes_itself_does_not_hang(browser: Browser, site: Site) -> None:
    async def callback(page: LivePage, *_: Any) -> None:
        with contextlib.suppress(FetchError):
            await page.evaluate("window.open('', '_self'); window.close()")
        with pytest.raises(FetchError) as caught:
            await page.wait_for_timeout(20_000)
        assert caught.value.of_page

    use(browser, site, callback, kept=2.0)


def test_a_page_that_crashes_ends_as_its_fetch(browser: Browser, site: Site) -> None:
    async def callback(page: LivePage, *_: Any) -> None:
        with pytest.raises(PageCrashed, match="its renderer crashed") as caught:
            await asyncio.gather(page.wait_for_timeout(20_000), _crash(browser))
        assert caught.value.of_page

    use(browser, site, callback)


async def _crash(browser: Browser) -> None:
    for process in browser.host.named("--type=renderer"):
        process.kill()


def test_a_killed_process_leaves_no_page(single: Host, site: Site) -> None:
    """Here its connection ends, as at kill -9."""

    async def callback(page: LivePage, response: Any, downloader: Downloader) -> None:
        downloader._other("browser")._line._writer.transport.abort()
        with pytest.raises(BrowserLost):
            await page.wait_for_timeout(20_000)

    use(Browser(single), site, callback)
    assert Browser(single).fetch(f"{site.url}/").ok  # it would wait for the only page


def test_a_callback_that_holds_one_gets_no_second(browser: Browser, site: Site) -> None:
    class Running:
        task, rid, url, stats = 1, b"1", "", None

    async def callback(page: LivePage, response: Any, downloader: Downloader) -> None:
        request = Request(f"{site.url}/", downloader="browser")
        with pytest.raises(PageOpen, match=r"await page\.close"):
            await downloader.fetch(request, SpiderSettings(**QUICK))
        await page.close()
        assert (await downloader.fetch(request, SpiderSettings(**QUICK))).ok

    token = RUNNING.set(Running())  # type: ignore[arg-type]
    try:
        use(browser, site, callback)
    finally:
        RUNNING.reset(token)


def test_a_process_that_is_no_node_has_one_from_any_directory(
    program: str, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `manage.py parse` does: it starts a host, which must find this code."""
    html(site, "/", PAGE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)

    async def job() -> str:
        downloader = Downloader(Settings(allow_private=LOOPBACK, browser=program))
        try:
            request = Request(f"{site.url}/", actions=[KeepPage()])
            with downloader.memory.account() as account:
                own = SpiderSettings(**QUICK)
                response = await downloader.fetch(request, own, FetchContext(account=account))
                page = await response.page()
                return str(await page.title())
        finally:
            await downloader.close()

    assert asyncio.run(job()) == "shop"
