"""Additions, changes and deletions in the admin are recorded in the journal."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import ModelAdmin
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from crawlservice.accounts.journal import by, record


class Journaled(ModelAdmin):
    """Mixin, listed before unfold's ModelAdmin. The journal replaces Django's own log."""

    def details(self, row: Any) -> dict[str, Any]:
        """What the journal records of a row besides its name."""
        return {}

    def log_addition(self, request: HttpRequest, object: Any, message: Any) -> None:  # type: ignore[override]
        self._note(request, "add", object)

    def log_change(self, request: HttpRequest, object: Any, message: Any) -> None:  # type: ignore[override]
        changes = message if isinstance(message, list) else []
        fields = [name for one in changes for name in one.get("changed", {}).get("fields", ())]
        if fields:
            self._note(request, "change", object, fields=fields)

    def log_deletions(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:  # type: ignore[override]
        for row in queryset:
            self._note(request, "delete", row)

    def _note(self, request: HttpRequest, verb: str, row: Model, **detail: Any) -> None:
        detail = {"name": str(row), "id": row.pk, **detail, **self.details(row)}
        record(f"{verb}_{row._meta.model_name}", **by(request), **detail)
