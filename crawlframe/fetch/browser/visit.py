"""Visit: one order carried out on one page."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from playwright.async_api import Error
from playwright.async_api import TimeoutError as StepTimeout

from crawlframe.actions import KeepPage
from crawlframe.base.urls import host_of
from crawlframe.errors import (
    BodyTooLarge,
    BrowserLost,
    FetchError,
    FetchTimeout,
    PageCrashed,
)
from crawlframe.fetch.browser import failures
from crawlframe.fetch.browser.contexts import BLANK, Tab
from crawlframe.fetch.browser.documents import Document, Documents
from crawlframe.fetch.browser.orders import Command, CommandReply, Done, Order
from crawlframe.fetch.browser.steps import Steps, carry_out
from crawlframe.fetch.names.resolver import place_of

# In a world of its own, where the page's scripts have changed nothing.
_DOM = """(limit => {
  const type = document.doctype ? new XMLSerializer().serializeToString(document.doctype) : "";
  const html = document.documentElement ? document.documentElement.outerHTML : "";
  return html.length > limit ? html.length : type + html;
})"""
WORLD = "crawlframe"
PREPARE = 30.0  # seconds for the browser to be ready to send the document
PICTURE = 3.0  # seconds for taking a picture of a failed page
QUALITY = 50  # of a JPEG, of 100


class TabVisit:
    """``run`` it, ``hold`` it if the callback uses the page, and ``close`` it. ``whole`` is false
    when the tab must not be used again."""

    def __init__(
        self,
        tab: Tab,
        order: Order,
        may_send: Callable[[], Awaitable[float]],
        may_go: Callable[[str], Awaitable[bool]],
    ) -> None:
        """``may_send`` returns when the document may be sent, and within how many seconds the order
        must be carried out from then on."""
        self.whole = False
        self._tab = tab
        self._order = order
        self._lost = asyncio.ensure_future(self._watch())
        self._may_send = may_send
        self._timeout = asyncio.timeout(PREPARE)
        self._prepared = False
        self._documents = Documents(
            tab.cdp, tab.frame, order, self._before_sent, may_go, self._stop
        )
        self._steps = Steps(tab.page, order.actions, order.max_body)
        self._task: asyncio.Task[Any] | None = None
        self._stopped = False
        self._over = False  # later events of the page change nothing
        self._since = time.monotonic()

    async def run(self) -> Done:
        """Returns the response. Raises FetchError."""
        try:
            done = await self._run()
            self._over = True
            if self._order.picture and not self._stopped:
                done.rendered.picture = await self._picture()
            return done
        except FetchError as error:
            self._over = True
            if self._order.picture and self._documents.answer is not None:
                error.picture = await self._picture()
            raise

    async def _run(self) -> Done:
        self._task = asyncio.current_task()
        self._since = time.monotonic()
        self._tab.page.on("crash", self._on_crash)
        self._steps.open()
        try:
            async with self._timeout:
                answer = await self._answer()
                body = answer.body
                if body is None:
                    body = await self._dom()
                cookies: list[tuple[str, str]] = []
                if self._order.cookies is not None:
                    cookies = await self._tab.context.changed_cookies()
            self.whole = True
            return self._done(answer, body, cookies)
        except TimeoutError:
            text = f"no complete page within {self._order.timeout:g} s"
            if not self._prepared:
                text = f"the browser did not start to fetch it within {PREPARE:g} s"
            raise FetchTimeout(f"{self._order.url}: {text}") from None
        except asyncio.CancelledError:
            self._raise_failure()
            raise
        except Error as error:
            raise self._named(error) from None

    async def _before_sent(self) -> None:
        """The document is ready to be sent, and waits for its turn at its host."""
        self._prepared = True
        self._timeout.reschedule(None)
        seconds = await self._may_send()
        self._timeout.reschedule(asyncio.get_running_loop().time() + seconds)

    async def _picture(self) -> bytes:
        """A picture of the page, in case that its request fails; b"" if none can be taken."""
        try:
            async with asyncio.timeout(PICTURE):
                return await self._tab.page.screenshot(
                    type="jpeg", quality=QUALITY, timeout=1000 * PICTURE
                )
        except (Error, TimeoutError):
            return b""

    @property
    def may_hold(self) -> bool:
        """Whether the page is there, for ``hold``."""
        return self._order.hold > 0 and self.whole and not self._stopped

    async def hold(self) -> None:
        """Until it is cancelled, lets the callback use the page, which no other order gets
        afterwards. Raises FetchError when the page ends, or is kept for too long."""
        self.whole = False
        self._documents.acting = self._documents.held = True
        self._over = False
        if self._documents.failure is not None:  # while its answer was sent
            raise self._documents.failure
        try:
            await asyncio.sleep(self._order.hold)
        except asyncio.CancelledError:
            self._raise_failure()
            raise
        raise FetchTimeout(f"{self._order.url}: its page was kept for {self._order.hold:g} s")

    async def obey(self, command: Command) -> CommandReply | None:
        """Carries out a command of the callback. None: the page is gone, as ``hold`` reports."""
        page, order = self._tab.page, self._order
        try:
            reply = await carry_out(page, command, order.max_body)
            if order.cookies is not None:
                reply.cookies = await self._tab.context.changed_cookies()
        except Error as error:
            self._documents.fail(self._named(error))
        if self._documents.failure is not None:
            return None
        reply.url = page.url
        return reply

    async def close(self) -> None:
        """Leaves the tab."""
        self._lost.cancel()
        if self._task is None:
            return
        self._tab.page.remove_listener("crash", self._on_crash)
        await self._documents.close()
        await self._steps.close()

    async def _answer(self) -> Document:
        """The document that counts, after all actions; its body is None if it is the DOM."""
        order, page, documents = self._order, self._tab.page, self._documents
        try:
            if order.cookies is not None:
                await self._tab.context.put_cookies(order.cookies)
            documents.open()
            await self._go()
            if any(not isinstance(one, KeepPage) for one in order.actions):
                documents.acting = True
                await self._steps.run()
            elif order.settle:
                try:
                    await page.wait_for_load_state("networkidle", timeout=1000 * order.settle)
                except StepTimeout:
                    pass
        except asyncio.CancelledError:
            if not self._stopped or documents.failure is not None or documents.answer is None:
                raise
            assert self._task is not None
            self._task.uncancel()
        if documents.answer is None or (documents.answer.body is None and page.url == BLANK):
            raise PageCrashed(f"{order.url}: the browser shows no document")
        return documents.answer

    async def _go(self) -> None:
        page, documents = self._tab.page, self._documents
        url = self._order.url + self._order.fragment
        for last in (False, False, True):
            try:
                if page.url.partition("#")[0] == url.partition("#")[0]:  # it would only scroll
                    await page.goto(BLANK, wait_until="commit")
                await page.goto(url, wait_until="load", timeout=0)
                return
            except Error as error:
                if documents.ending:
                    await asyncio.Event().wait()  # for ``_stop``
                if "interrupted by another navigation" in str(error):
                    await page.wait_for_load_state("load", timeout=0)
                    return
                # The navigation of an order before this one may end late, and this one with it.
                if last or documents.sent or "net::ERR_ABORTED" not in str(error):
                    raise

    async def _dom(self) -> bytes:
        cdp, limit = self._tab.cdp, self._order.max_body
        world = await cdp.send(
            "Page.createIsolatedWorld", {"frameId": self._tab.frame, "worldName": WORLD}
        )
        parameters = {
            "expression": f"{_DOM}({limit})",
            "contextId": world["executionContextId"],
            "returnByValue": True,
        }
        dom = (await cdp.send("Runtime.evaluate", parameters))["result"].get("value")
        body = dom.encode("utf-8", "replace") if isinstance(dom, str) else b""
        if not isinstance(dom, str) or len(body) > limit:
            raise BodyTooLarge(f"{self._order.url}: the DOM is larger than {limit} bytes")
        return body

    def _done(self, answer: Document, body: bytes, cookies: list[tuple[str, str]]) -> Done:
        headers, url = answer.headers, answer.url
        if answer.body is None:
            headers = [one for one in headers if one[0].lower() != "content-type"]
            headers.append(("Content-Type", "text/html; charset=utf-8"))
            now = self._tab.page.url  # scripts may have changed it
            now = now if self._order.fragment else now.partition("#")[0]
            if now.startswith("http") and host_of(now) == host_of(url):
                url = now
        host = place_of(url)[0]
        return Done(
            self._order.id,
            url,
            answer.status,
            headers,
            body,
            self._tab.context.proxy.addresses.get(host, ""),
            cookies,
            self._steps.rendered,
        )

    # -- failures ---------------------------------------------------------------------------------

    def _raise_failure(self) -> None:
        """Raises the failure if the task of the order is cancelled because of it."""
        if self._stopped and self._documents.failure is not None and self._task is not None:
            self._task.uncancel()
            raise self._documents.failure from None

    def _stop(self) -> None:
        """Ends the work on the page."""
        if not self._stopped and not self._over and self._task is not None:
            self._stopped = True
            self._task.cancel()

    def _on_crash(self, page: object) -> None:
        self._documents.fail(PageCrashed(f"{self._order.url}: its renderer crashed"))

    async def _watch(self) -> None:
        await self._tab.context.browser.lost.wait()
        self._documents.fail(BrowserLost(f"{self._order.url}: the browser ended"))

    def _named(self, error: Error) -> FetchError:
        """The error that an error of Playwright stands for."""
        if self._documents.failure is not None:
            return self._documents.failure
        if self._tab.context.browser.ended:
            return BrowserLost(f"{self._order.url}: the browser ended")
        problem = self._tab.context.proxy.problem(*place_of(self._order.url), self._since)
        if problem is not None and "net::" in str(error):
            return type(problem)(f"{self._order.url}: {problem}")
        return failures.name(self._tab.page, error, self._order.url)
