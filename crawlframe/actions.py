"""Actions: steps of a browser on a page before its DOM is taken, as data.

``Request(url, downloader="browser", actions=[Click("button.more"), WaitFor(".card")])``; each may
also be a dict with its name: ``{"do": "click", "selector": "button.more"}``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from crawlframe.base.type_words import in_words
from crawlframe.errors import BadRequest

MAX_ACTIONS = 100
Text = Annotated[str, Meta(max_length=100_000)]
Selector = Annotated[str, Meta(min_length=1, max_length=10_000)]
Seconds = Annotated[float, Meta(gt=0, le=600)]


class _Action(msgspec.Struct, frozen=True, tag_field="do", forbid_unknown_fields=True):
    """The base of all actions. An action with a ``timeout`` fails after that many seconds."""


class Goto(_Action, frozen=True, tag="goto"):
    """Goes to another URL of the same host; relative URLs are joined to the page's."""

    url: Selector
    timeout: Seconds = 30


class WaitFor(_Action, frozen=True, tag="wait_for"):
    """Waits for an element to have the ``state``; or, with ``load``, for the page itself."""

    selector: str = ""
    state: Literal["attached", "detached", "visible", "hidden"] = "visible"
    load: Literal["", "domcontentloaded", "load", "networkidle"] = ""
    timeout: Seconds = 10

    def __post_init__(self) -> None:
        if bool(self.selector) == bool(self.load):
            raise ValueError("wait_for needs a selector, or load; one of the two")


class Click(_Action, frozen=True, tag="click"):
    """Clicks the first element, once it can be clicked. ``count`` = 2: a double click."""

    selector: Selector
    button: Literal["left", "right", "middle"] = "left"
    count: Annotated[int, Meta(ge=1, le=3)] = 1
    timeout: Seconds = 10


class Fill(_Action, frozen=True, tag="fill"):
    """Replaces the text of an input."""

    selector: Selector
    text: Text
    timeout: Seconds = 10


class Press(_Action, frozen=True, tag="press"):
    """Presses a key, such as "Enter" or "Control+A"; with a selector, while that has the focus."""

    key: Annotated[str, Meta(min_length=1, max_length=50)]
    selector: str = ""
    timeout: Seconds = 10


class Hover(_Action, frozen=True, tag="hover"):
    """Moves the mouse over an element."""

    selector: Selector
    timeout: Seconds = 10


class Mouse(_Action, frozen=True, tag="mouse"):
    """Moves the mouse to a point of the window, in CSS pixels; ``click`` presses it there, and
    ``wheel`` turns its wheel by that many pixels."""

    x: float
    y: float
    click: bool = False
    wheel: float = 0


class ScrollToEnd(_Action, frozen=True, tag="scroll_to_end"):
    """Scrolls down until the page grows no more for ``pause`` seconds, at most ``times`` times."""

    times: Annotated[int, Meta(ge=1, le=1000)] = 20
    pause: Annotated[float, Meta(gt=0, le=60)] = 0.5


class Evaluate(_Action, frozen=True, tag="evaluate"):
    """Evaluates JavaScript in the page, a function or an expression. Its result must have a JSON
    form, and is added to ``response.results``."""

    script: Annotated[str, Meta(min_length=1, max_length=100_000)]
    timeout: Seconds = 10


class Screenshot(_Action, frozen=True, tag="screenshot"):
    """Takes a JPEG picture of the window, of the whole page, or of an element."""

    selector: str = ""
    full_page: bool = False
    quality: Annotated[int, Meta(ge=1, le=100)] = 60
    timeout: Seconds = 10


class Pdf(_Action, frozen=True, tag="pdf"):
    """Prints the page to ``response.pdf``."""

    timeout: Seconds = 30


class CaptureJson(_Action, frozen=True, tag="capture_json"):
    """Keeps the JSON answers to the page's requests by fetch or XMLHttpRequest at URLs that contain
    ``url``, from the first request on, wherever it stands in the list. Until there are ``count`` of
    them, the page is not finished; 0: it takes those that have come."""

    url: str = ""
    count: Annotated[int, Meta(ge=0, le=10_000)] = 0
    timeout: Seconds = 10


class KeepPage(_Action, frozen=True, tag="keep_page"):
    """Keeps the page, as it is after all other actions, for ``await response.page()``: until the
    callback ends, which must be async. It takes one of the node's pages for that time."""


Action = (
    Goto | WaitFor | Click | Fill | Press | Hover | Mouse | ScrollToEnd | Evaluate | Screenshot
    | Pdf | CaptureJson | KeepPage
)  # fmt: skip


def check_actions(url: str, given: Any) -> tuple[Action, ...]:
    """The actions of the request for ``url``, from objects and dicts. Raises BadRequest."""
    if isinstance(given, str | bytes | dict | msgspec.Struct) or not isinstance(given, Iterable):
        raise BadRequest(f"request {url}: actions must be a list of actions, not {given!r}")
    checked: list[Action] = []
    for number, one in enumerate(given, 1):
        try:
            # A class does not check its own arguments.
            data = msgspec.to_builtins(one) if isinstance(one, msgspec.Struct) else one
            checked.append(msgspec.convert(data, Action))
        except msgspec.ValidationError as error:
            raise BadRequest(
                f"request {url}: action {number}, {one!r}: {in_words(error, Action)}"
            ) from None
    if len(checked) > MAX_ACTIONS:
        raise BadRequest(f"request {url}: {len(checked)} actions, the limit is {MAX_ACTIONS}")
    return tuple(checked)


def keeps_page(given: Iterable[Action] | None) -> bool:
    """Whether the callback may use the page of the request."""
    return any(isinstance(one, KeepPage) for one in given or ())


def describe(action: Action) -> str:
    """An action in a few words, for messages; without texts that may be passwords."""
    name = str(type(action).__struct_config__.tag)
    for field in ("selector", "load", "url", "key"):
        if value := getattr(action, field, ""):
            return f"{name} {value[:200]!r}"
    return name
