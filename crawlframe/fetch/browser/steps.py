"""Steps: the actions of an order, and the calls of its callback, done on Playwright's page."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

import msgspec
from playwright.async_api import Error, Page, Response

from crawlframe import actions
from crawlframe.actions import Action, describe
from crawlframe.base.exact_json import loads
from crawlframe.base.urls import host_of, join
from crawlframe.errors import ActionFailed, BodyTooLarge
from crawlframe.fetch.browser import failures
from crawlframe.fetch.browser.orders import Command, CommandReply
from crawlframe.response.browser_response import Captured, Rendered
from crawlframe.response.live_page import Step
from crawlframe.response.page_calls import REFUSED, kind_after

T = TypeVar("T")

MS = 1000.0
XHR = ("xhr", "fetch")
_GROWN = "() => document.documentElement.scrollHeight"
_DOWN = "() => window.scrollTo(0, document.documentElement.scrollHeight)"
MESSAGE = 2000  # characters of an error of Playwright
PLAIN = (str, bytes, int, float, bool, list, dict, type(None))


class Steps:
    """The steps of one order. ``rendered`` has their results; together at most ``limit`` bytes."""

    def __init__(self, page: Page, given: Sequence[Action], limit: int) -> None:
        self.rendered = Rendered()
        self._page = page
        self._given = given
        self._limit = limit
        self._size = 0
        self._captures = [one for one in given if isinstance(one, actions.CaptureJson)]
        self._reading: set[asyncio.Task[None]] = set()
        self._arrived = asyncio.Event()

    def open(self) -> None:
        """Before the page is sent for, so that no answer is missed."""
        if self._captures:
            self._page.on("response", self._on_response)

    async def close(self) -> None:
        if self._captures:
            self._page.remove_listener("response", self._on_response)
        for task in self._reading:
            task.cancel()
        await asyncio.gather(*self._reading, return_exceptions=True)

    async def run(self) -> None:
        """Raises ActionFailed, BodyTooLarge, and playwright's Error when the page is gone."""
        steps = [*enumerate(self._given, 1)]
        # A later action may cause the answers that a capture waits for.
        steps.sort(key=lambda step: isinstance(step[1], actions.CaptureJson))
        for number, action in steps:
            try:
                await self._do(action)
            except Error as error:
                if failures.is_end(self._page, error):
                    raise
                text = str(error).split("\n", 1)[0]
                why = f"action {number}, {describe(action)}: {text[:500]}"
                raise ActionFailed(f"{self._page.url}: {why}") from None
        await asyncio.gather(*self._reading)

    async def _do(self, action: Action) -> None:
        page = self._page
        match action:
            case actions.Goto(url, timeout):
                await page.goto(target_of(page.url, url), timeout=timeout * MS)
            case actions.WaitFor(selector, state, load, timeout):
                if load:
                    await page.wait_for_load_state(load, timeout=timeout * MS)
                else:
                    place = page.locator(selector).first
                    await place.wait_for(state=state, timeout=timeout * MS)
            case actions.Click(selector, button, count, timeout):
                place = page.locator(selector).first
                await place.click(button=button, click_count=count, timeout=timeout * MS)
            case actions.Fill(selector, text, timeout):
                await page.locator(selector).first.fill(text, timeout=timeout * MS)
            case actions.Press(key, selector, timeout):
                if selector:
                    await page.locator(selector).first.press(key, timeout=timeout * MS)
                else:
                    await page.keyboard.press(key)
            case actions.Hover(selector, timeout):
                await page.locator(selector).first.hover(timeout=timeout * MS)
            case actions.Mouse(x, y, click, wheel):
                await page.mouse.move(x, y)
                if click:
                    await page.mouse.click(x, y)
                if wheel:
                    await page.mouse.wheel(0, wheel)
            case actions.ScrollToEnd(times, pause):
                await self._scroll(times, pause)
            case actions.Evaluate(script, timeout):
                await self._evaluate(script, timeout)
            case actions.Screenshot():
                await self._photograph(action)
            case actions.Pdf(timeout):
                self.rendered.pdf = self._counted(await self._within(page.pdf(), timeout))
            case actions.CaptureJson():
                await self._captured(action)
            case actions.KeepPage():
                pass

    async def _scroll(self, times: int, pause: float) -> None:
        height = await self._page.evaluate(_GROWN)
        for _ in range(times):
            await self._page.evaluate(_DOWN)
            await asyncio.sleep(pause)
            before, height = height, await self._page.evaluate(_GROWN)
            if height == before:
                return

    async def _evaluate(self, script: str, timeout: float) -> None:
        result = await self._within(self._page.evaluate(script), timeout)
        try:
            self._counted(msgspec.json.encode(result))
        except (TypeError, ValueError, RecursionError) as error:
            raise Error(f"what it returned has no JSON form: {error}") from None
        self.rendered.results.append(result)

    async def _photograph(self, action: actions.Screenshot) -> None:
        timeout, quality = action.timeout * MS, action.quality
        if action.selector:
            place = self._page.locator(action.selector).first
            picture = await place.screenshot(type="jpeg", quality=quality, timeout=timeout)
        else:
            picture = await self._page.screenshot(
                type="jpeg", quality=quality, full_page=action.full_page, timeout=timeout
            )
        self.rendered.screenshot = self._counted(picture)

    # -- answers to the scripts of the page -------------------------------------------------------

    def _on_response(self, response: Response) -> None:
        if response.request.resource_type in XHR and any(
            one.url in response.url for one in self._captures
        ):
            task = asyncio.ensure_future(self._read(response))
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)

    async def _read(self, response: Response) -> None:
        length = response.headers.get("content-length", "")
        if length.isdigit() and int(length) > self._limit:
            return
        try:
            body = await response.body()
            loads(body)
        except (Error, ValueError, RecursionError):
            return  # no JSON, or the page has dropped it
        if self._size + len(body) <= self._limit:
            self._counted(body)
            self.rendered.captured.append(Captured(response.url, response.status, body))
            self._arrived.set()

    async def _captured(self, action: actions.CaptureJson) -> None:
        try:
            async with asyncio.timeout(action.timeout):
                while self._count(action) < action.count:
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            found = self._count(action)
            raise Error(f"{found} of {action.count} answers within {action.timeout:g} s") from None

    def _count(self, action: actions.CaptureJson) -> int:
        return sum(action.url in one.url for one in self.rendered.captured)

    def _counted(self, data: bytes) -> bytes:
        self._size += len(data)
        if self._size > self._limit:
            raise BodyTooLarge(
                f"{self._page.url}: what its actions bring is larger than {self._limit} bytes"
            )
        return data

    async def _within(self, doing: Awaitable[T], seconds: float) -> T:
        try:
            async with asyncio.timeout(seconds):
                return await doing
        except TimeoutError:
            raise Error(f"not done within {seconds:g} s") from None


def target_of(page: str, url: str) -> str:
    """The URL of the same host that a page is sent to. Raises playwright's Error."""
    target = join(page, url)
    if target is None:
        raise Error(f"{url!r} is no http(s) URL")
    if host_of(target) != host_of(page):
        raise Error(f"{target} is on another host; yield a request for it")
    return target


async def carry_out(page: Page, command: Command, limit: int) -> CommandReply:
    """The reply, with a result of at most ``limit`` bytes. Raises playwright's Error when the page
    has ended."""
    reply = CommandReply(command.id, command.number)
    try:
        result = _plain(await _call(page, command.steps))
        size = len(msgspec.msgpack.encode(result))
        if size > limit:
            text = f"{_name(command)}: {size} bytes are returned, more than max_body, {limit}"
            reply.kind, reply.message = BodyTooLarge.__name__, text
        else:
            reply.value = result
    except Error as error:
        if failures.is_end(page, error):
            raise
        text = str(error)[:MESSAGE]
        reply.kind, reply.message = ActionFailed.__name__, f"{_name(command)}: {text}"
    except Exception as error:  # wrong arguments, or a result that has no form as data
        text = f"{_name(command)}: {type(error).__name__}: {error}"
        reply.kind, reply.message = ActionFailed.__name__, text[:MESSAGE]
    return reply


async def _call(page: Page, steps: list[Step]) -> Any:
    thing: Any = page
    kind = "page"
    for name, arguments, named in steps:
        after = kind_after(kind, name, called=arguments is not None)
        if after is None or REFUSED & named.keys():
            raise TypeError(f"{name} of a {kind} may not be used")
        found = getattr(thing, name)
        if arguments is None:
            thing = found
        elif after:
            thing = found(*arguments, **named)
        elif (kind, name) == ("page", "goto"):
            given = {"url": arguments[0], **named} if arguments else named
            return await page.goto(**{**given, "url": target_of(page.url, str(given["url"]))})
        else:
            return await found(*arguments, **named)
        kind = after
    raise TypeError(f"a {kind} is no result")


def _plain(result: Any) -> Any:
    """The result as data; None for a handle of something in the page."""
    if isinstance(result, Response):
        return [result.url, result.status]
    return result if isinstance(result, PLAIN) else None


def _name(command: Command) -> str:
    return ".".join(["page", *(name for name, _, _ in command.steps)])
