"""Lists whose rows have a page of their own instead of Django's form."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from django.contrib.admin import AdminSite, ModelAdmin
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern

from crawlservice.accounts.journal import by, record
from crawlservice.admin.parts.read_only import ReadOnly


class RowPage(Protocol):
    """A module that makes the page of a row."""

    def urls(self, site: AdminSite) -> list[URLPattern]:
        """Further URLs of the page, such as its live parts and its forms."""

    def page(self, site: AdminSite, request: HttpRequest, pk: str) -> HttpResponse:
        """The page, for a user who may see the rows."""


class OwnPage(ReadOnly):
    """``row_page`` makes the page of a row."""

    row_page: ClassVar[RowPage]

    def get_urls(self) -> list[URLPattern]:
        return [*self.row_page.urls(self.admin_site), *super().get_urls()]

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        if request.method not in ("GET", "HEAD") or not self.has_view_permission(request):
            raise PermissionDenied
        return self.row_page.page(self.admin_site, request, object_id)


class Journaled(ModelAdmin):
    """Mixin, listed before unfold's ModelAdmin. The journal replaces Django's own log."""

    def details(self, row: Any) -> dict[str, Any]:
        """Details of a row for the journal, besides its name."""
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
