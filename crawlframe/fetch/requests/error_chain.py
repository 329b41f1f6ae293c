"""The chain of an exception: itself and all that it wraps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and its causes, contexts, arguments and reasons."""
    seen: set[int] = set()
    links: list[Any] = [error]
    while links:
        link = links.pop(0)
        if not isinstance(link, BaseException) or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        links += [*link.args, getattr(link, "reason", None), link.__cause__, link.__context__]
