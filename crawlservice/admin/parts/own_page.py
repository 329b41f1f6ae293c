"""Lists whose rows have a page of their own instead of Django's form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from django.contrib import admin
from django.contrib.admin import AdminSite, ModelAdmin
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from crawlservice.accounts.journal import by, record
from crawlservice.admin.parts.columns import column
from crawlservice.admin.parts.keyset import KeysetList
from crawlservice.admin.parts.lookups import DeclaredLookups
from crawlservice.display import label_chips, moment


class ReadOnly(DeclaredLookups):
    """Shows rows. Only nodes write the ledger and what follows from it."""

    show_full_result_count = False
    list_per_page = 50
    list_fullwidth = True
    sortable_by: Sequence[str] = ()
    actions: Sequence[str] | None = None
    changelist = KeysetList

    created = column(moment, "created_at", _("created"))

    @admin.display(description=_("labels"))
    def shown_labels(self, row: Any) -> SafeString | str:
        """Of the row's task, which the list has looked up."""
        return label_chips(row.known_labels, "")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class RowPage(Protocol):
    """A module that makes the page of a row."""

    def urls(self, site: AdminSite) -> list[URLPattern]:
        """What belongs to the page, such as its live parts and its forms."""

    def page(self, site: AdminSite, request: HttpRequest, pk: str) -> HttpResponse:
        """The page."""


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
        return self.row_page.page(self.admin_site, request, object_id)


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
