"""Signatures: whether a function of authors can be called as the framework calls it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any


def misfit(function: Callable[..., Any], *arguments: Any, keywords: Iterable[Any] = ()) -> str:
    """Returns why a call with these arguments fails; "" if it does not, or if only the call can
    tell, as with functions made in C."""
    try:
        inspect.signature(function).bind(*arguments, **dict.fromkeys(keywords))
    except TypeError as error:
        return str(error)
    except ValueError:
        return ""
    return ""


def required(function: Callable[..., Any]) -> str:
    """Returns the names of the arguments without which it cannot be called, with commas."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # made in C: only the call can tell
        return ""
    return ", ".join(
        one.name
        for one in signature.parameters.values()
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    )


def parameters(function: Callable[..., Any]) -> list[str]:
    """Returns the names of its parameters; none of a function made in C."""
    try:
        return [*inspect.signature(function).parameters]
    except ValueError:
        return []
