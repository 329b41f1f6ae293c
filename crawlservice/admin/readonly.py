"""What all lists of the admin share: nothing can be edited, nothing is counted without bound."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.safestring import SafeString
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


def pretty(data: Any) -> SafeString:
    """JSON laid out to be read, escaped."""
    return laid_out(json.dumps(data, ensure_ascii=False, indent=2))


def laid_out(text: str) -> SafeString:
    """Text with its own lines, escaped."""
    return format_html('<pre class="cf-text">{}</pre>', text)


def marked(text: str) -> SafeString:
    """Text that should catch the eye."""
    return format_html('<strong class="cf-bad">{}</strong>', text)
