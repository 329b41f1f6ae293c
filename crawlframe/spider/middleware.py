"""Middleware: the authors' layers around the download, and the checks of a spider's list."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from crawlframe.base.signatures import misfit
from crawlframe.request.request import Request
from crawlframe.response.response import Response

CallNext = Callable[[Request], Awaitable[Response]]
SyncCallNext = Callable[[Request], Response]


class Middleware(Protocol):
    """A layer around the download, as listed in a spider's ``middlewares``."""

    async def fetch(self, request: Request, call_next: CallNext) -> Response:
        """Returns the response to ``request``: from ``await call_next(request)``, from another
        request to the same host, or a response of its own.

        Raise ``Retry`` for another attempt, another FetchError to end the request by its name."""
        ...


class SyncMiddleware(Protocol):
    """A Middleware whose ``fetch`` runs in a thread, where it may block."""

    def fetch(self, request: Request, call_next: SyncCallNext) -> Response:
        """As in Middleware; ``call_next(request)`` returns the response."""
        ...


def name_of(middleware: object) -> str:
    """The name of a middleware's class."""
    kind = middleware if isinstance(middleware, type) else type(middleware)
    return kind.__qualname__


def misuse_of(middlewares: Any) -> str:
    """The mistake in a spider's ``middlewares``; "" if none."""
    if not isinstance(middlewares, list | tuple):
        return (
            "middlewares must be a list of objects or classes, the outermost first, not "
            f"{type(middlewares).__name__}"
        )
    for one in middlewares:
        if problem := _misuse(one):
            return f"middlewares: {problem}"
    return ""


def _misuse(middleware: Any) -> str:
    if isinstance(middleware, str):
        return f"{middleware!r} is text; import the class and list it itself"
    name, is_class = name_of(middleware), isinstance(middleware, type)
    fetch = getattr(middleware, "fetch", None)
    if not callable(fetch):
        return f"{name} has no method fetch(self, request, call_next)"
    if inspect.isasyncgenfunction(fetch) or inspect.isgeneratorfunction(fetch):
        return f"{name}.fetch must return a Response; it yields"
    if is_class and (needed := misfit(middleware)):
        return f"{name} must work without arguments, or be listed as an object: {needed}"
    own = isinstance(inspect.getattr_static(middleware, "fetch"), staticmethod | classmethod)
    given = (None, None, None) if is_class and not own else (None, None)
    if wrong := misfit(fetch, *given):
        return f"{name}.fetch must take request and call_next: {wrong}"
    return ""
