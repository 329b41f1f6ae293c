"""Signatures: whether an author's function can be called the way the framework calls it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from crawlframe.errors import BadRequest


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


def callback_name(callback: Callable[..., Any] | str | None, field: str = "callback") -> str | None:
    """Return the name of a spider's method. Raises BadRequest for any other function."""
    if callback is None or isinstance(callback, str):
        return callback or None
    name = getattr(callback, "__name__", "")
    if not name or name == "<lambda>" or getattr(callback, "__self__", None) is None:
        raise BadRequest(
            f"{field} must be a method of the spider or its name, not {callback!r}: the request "
            "may run in another process"
        )
    return name
