"""Results: the return values of a spider's methods, in any of the forms that a callback may have,
as one stream."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from typing import Any

from crawlframe.base.signatures import is_async
from crawlframe.request.request import Request


def stream(
    results: Iterable[Any], *methods: Callable[..., Any]
) -> Generator[Any] | AsyncGenerator[Any]:
    """Return the items and Requests of each of ``results``, the return values of ``methods``, in
    their order. It is an async generator if one of ``methods`` is async."""
    if any(map(is_async, methods)):
        return _stream_async(results)
    return (thing for result in results for thing in _each(result))


async def _stream_async(results: Iterable[Any]) -> AsyncGenerator[Any]:
    for result in results:
        if isinstance(result, AsyncGenerator):
            async for thing in result:
                yield thing
        else:
            for thing in _each(await result if inspect.isawaitable(result) else result):
                yield thing


def _each(result: Any) -> Iterable[Any]:
    if result is None:
        return ()
    return (result,) if isinstance(result, dict | Request) else result
