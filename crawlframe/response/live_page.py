"""LivePage: the browser's page of a request, as its callback uses it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from crawlframe.errors import PageClosed
from crawlframe.response.page_calls import CALLS, NAVIGATING, REFUSED

KEEP = "yield Request(url, actions=[KeepPage()]), with KeepPage of crawlframe.actions"

# Name, arguments and named arguments of one call; no arguments at all: of an attribute.
Step = tuple[str, list[Any] | None, dict[str, Any]]


class PageHandle(Protocol):
    """The page as the process of the callback reaches it."""

    url: str
    closed: bool

    async def call(self, steps: list[Step]) -> Any:
        """Returns the result of the last step. Raises FetchError and PageClosed."""

    def release(self) -> None:
        """Closes the page."""


class Navigation(NamedTuple):
    """The result of goto, reload, go_back and go_forward: the document that the page has now."""

    url: str
    status: int

    @property
    def ok(self) -> bool:
        """True if the status is 2xx."""
        return 200 <= self.status < 300


class PagePart:
    """A locator, frame, keyboard or mouse of a page. Its methods are listed for Playwright's object
    of this name in crawlframe/response/page_calls.py."""

    def __init__(self, held: PageHandle, kind: str, steps: tuple[Step, ...] = ()) -> None:
        self._held = held
        self._kind = kind
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        calls = CALLS[self._kind]
        if (kind := calls.parts.get(name)) is not None:
            return PagePart(self._held, kind, (*self._steps, (name, None, {})))
        if (kind := calls.makes.get(name)) is not None:
            return self._maker(name, kind)
        if name in calls.does:
            return self._doer(name)
        if name == "all" and self._kind == "locator":
            return self._all
        if name.startswith("_"):
            raise AttributeError(name)
        known = ", ".join(sorted({*calls.parts, *calls.makes, *calls.does}))
        raise AttributeError(f"the {self._kind} of response.page() has no {name!r}; it has {known}")

    def _maker(self, name: str, kind: str) -> Callable[..., PagePart]:
        def make(*arguments: Any, **named: Any) -> PagePart:
            return PagePart(self._held, kind, (*self._steps, _step(name, arguments, named)))

        return make

    def _doer(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def do(*arguments: Any, **named: Any) -> Any:
            result = await self._held.call([*self._steps, _step(name, arguments, named)])
            if name in NAVIGATING and result is not None:
                return Navigation(*result)
            return result

        do.__name__ = name
        return do

    async def _all(self) -> list[PagePart]:
        count = await self._doer("count")()
        return [self._maker("nth", self._kind)(n) for n in range(count)]

    def __repr__(self) -> str:
        return f"<{self._kind} of {self._held.url}>"


class LivePage(PagePart):
    """The page that the browser rendered for the request, after its actions. It is there until the
    callback ends.

    Its methods are from Playwright's asynchronous ``Page``, with the same arguments: ``click``,
    ``fill``, ``goto``, ``evaluate``, ``wait_for_selector``, ``content``, ``locator``,
    ``get_by_role``, ``keyboard``, ``mouse`` and others; values go to the browser and back as data.
    Calls that fail raise ActionFailed; if the page or browser has ended, a FetchError. A callback
    that does not catch it is tried again with its request."""

    def __init__(self, held: PageHandle) -> None:
        super().__init__(held, "page")

    @property
    def url(self) -> str:
        """The URL of the page after the last call."""
        return self._held.url

    def is_closed(self) -> bool:
        """Whether it was closed, or has ended."""
        return self._held.closed

    async def close(self) -> None:
        """Closes the page before the callback ends, so that another request can have its place."""
        self._held.release()


def page_of(url: str, held: PageHandle | None, *, rendered: bool) -> LivePage:
    """The page of the response from ``url``. Raises PageClosed."""
    if held is None:
        why = "its page was not kept" if rendered else "it was not rendered in a browser"
        hint = "; in a test, give RenderedResponse.held an object of your own" if rendered else ""
        raise PageClosed(f"{url} has no page: {why}; {KEEP}{hint}")
    if held.closed:
        raise PageClosed(f"{url}: its page is closed: it is there until its callback ends")
    return LivePage(held)


def _step(name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Step:
    if refused := REFUSED & named.keys():
        raise TypeError(
            f"page.{name}: {min(refused)} would be a file where the browser runs; use what the "
            "method returns, or pass the content"
        )
    for given in (*arguments, *named.values()):
        if isinstance(given, PagePart):
            raise TypeError(f"page.{name}: a {given!r} cannot be an argument; chain the locators")
    return name, list(arguments), named
