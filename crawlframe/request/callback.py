"""Callback: a method of a spider, as requests name it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crawlframe.errors import BadRequest

Callback = Callable[..., Any] | str


def callback_name(callback: Callback | None, field: str = "callback") -> str | None:
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
