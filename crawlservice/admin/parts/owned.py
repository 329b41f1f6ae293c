"""Owned: lists of rows with a spider name its owners, where a project has some."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from crawlservice.admin.parts.lookups import DeclaredLookups, column
from crawlservice.monitoring.owners import MINE, all_owners, owners, owners_of, spiders_of


class OwnerFilter(admin.SimpleListFilter):
    """``?owner=mine`` means the user's."""

    title = _("owner")
    parameter_name = "owner"
    field = "spider"  # or the way to it

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        names = all_owners()
        chosen = self.value()
        if chosen and chosen not in (MINE, *names):
            names.append(chosen)
        return [(MINE, _("mine")), *zip(names, names, strict=True)] if names else []

    def has_output(self) -> bool:
        return bool(self.lookup_choices) or self.value() is not None

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        if chosen is None:
            return queryset
        return queryset.filter(**{f"{self.field}__in": spiders_of(chosen, request.user)})


class Owned(DeclaredLookups):
    """A list with the column ``owner``."""

    owner = column(owners_of, _("owner"), "spider")

    def get_list_display(self, request: HttpRequest) -> Any:
        shown = super().get_list_display(request)
        return shown if owners() else [name for name in shown if name != "owner"]
