"""Signatures: whether an author's function can be called the way the framework calls it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any


def misfit(function: Callable[..., Any], *arguments: Any, keywords: Iterable[Any] = ()) -> str:
    """Returns why a call with these arguments fails; "" if it does not, or if only the call itself
    can show it, as with functions written in C."""
    try:
        inspect.signature(function).bind(*arguments, **dict.fromkeys(keywords))
    except TypeError as error:
        return str(error)
    except ValueError:
        return ""
    return ""


def is_async(function: Any) -> bool:
    """Whether it is a coroutine function or an async generator function."""
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def required(function: Callable[..., Any]) -> str:
    """Returns the names of the arguments that are required, joined by commas."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # written in C: only the call can show it
        return ""
    return ", ".join(
        one.name
        for one in signature.parameters.values()
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    )


def parameters(function: Callable[..., Any]) -> list[str]:
    """Returns the names of its parameters; none for a function written in C."""
    try:
        return [*inspect.signature(function).parameters]
    except ValueError:
        return []
