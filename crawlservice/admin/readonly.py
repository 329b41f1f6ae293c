"""What all lists of the admin share: nothing can be edited, nothing is counted without bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from unfold.admin import ModelAdmin

COUNTED = 10_000  # rows up to which a list is counted: a count of millions takes seconds


class BoundedPaginator(Paginator):
    """Ends after COUNTED rows; filters lead to the others."""

    @cached_property
    def count(self) -> int:
        rows: QuerySet[Any] = self.object_list[:COUNTED]  # type: ignore[assignment]
        return rows.count()


class ReadOnly(ModelAdmin):
    """Shows rows. The ledger and what follows from it are written by nodes only."""

    show_full_result_count = False
    paginator = BoundedPaginator
    list_per_page = 50
    actions: Sequence[str] | None = None

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False
