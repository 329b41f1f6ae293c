"""Columns of lists that show one field of each row."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from django.contrib import admin

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise


def column(
    show: Callable[[Any], Any], field: str, title: str | _StrPromise
) -> Callable[[Any, Any], Any]:
    """A column in which ``show`` displays a field of the row. "event.task_id" is the field of an
    object that the row refers to."""
    value = attrgetter(field)

    @admin.display(description=title)
    def shown(self: Any, row: Any) -> Any:
        return show(value(row))

    return shown
