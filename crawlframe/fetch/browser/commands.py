"""Commands: calls of a callback on the page of its request, carried out on Playwright's page."""

from __future__ import annotations

from typing import Any

import msgspec
from playwright.async_api import Error, Page, Response

from crawlframe.errors import ActionFailed, BodyTooLarge
from crawlframe.fetch.browser import failures
from crawlframe.fetch.browser.orders import Command, CommandReply
from crawlframe.fetch.browser.steps import target_of
from crawlframe.response.live_page import Step
from crawlframe.response.page_calls import REFUSED, kind_after

MESSAGE = 2000  # characters of an error of Playwright
PLAIN = (str, bytes, int, float, bool, list, dict, type(None))


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
