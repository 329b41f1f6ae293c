"""Columns of lists that show one field of each row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import CASCADE
from django.http import HttpRequest
from django.utils.dateparse import parse_datetime

from crawlservice.admin.parts.lookups import DeclaredLookups

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise


def column(
    show: Callable[[Any], Any], title: str | _StrPromise, field: str = ""
) -> Callable[[Any, Any], Any]:
    """A column in which ``show`` displays the row, or a field of it. "event.task_id" is the field
    of an object that the row refers to."""

    @admin.display(description=title)
    def shown(self: Any, row: Any) -> Any:
        return show(attrgetter(field)(row) if field else row)

    return shown


def moment_of(text: object) -> datetime | None:
    """``2026-01-31T12:00``; None for anything else."""
    try:
        found = parse_datetime(str(text or ""))
    except ValueError:
        return None
    return found if found is None or found.tzinfo else found.replace(tzinfo=UTC)


class Owner(DeclaredLookups):
    """Deleting a row deletes the rows it owns, though none may delete the latter alone. The deleted
    rows are counted, not listed: there may be a million."""

    def get_deleted_objects(self, objs: Iterable[Any], request: HttpRequest) -> Any:
        going = list(objs)
        counts = {self.opts.verbose_name_plural: len(going)}
        for relation in self.opts.related_objects:
            owned = relation.related_model
            rows = owned._default_manager.filter(**{f"{relation.field.name}__in": going})
            if relation.on_delete is CASCADE and (number := rows.count()):
                counts[owned._meta.verbose_name_plural] = number
        lacking = {
            self.opts.verbose_name for row in going if not self.has_delete_permission(request, row)
        }
        return [str(row) for row in going], counts, lacking, []
