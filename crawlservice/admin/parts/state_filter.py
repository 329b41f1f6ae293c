"""StateFilter: the filter of a list by the state of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise


class StateFilter(admin.SimpleListFilter):
    """``states``: name -> what it is called, and the condition of its rows."""

    title = _("state")
    parameter_name = "state"
    states: ClassVar[Mapping[str, tuple[_StrPromise, Q]]]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [(name, title) for name, (title, _rows) in self.states.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.states.get(self.value() or "")
        return queryset.filter(chosen[1]) if chosen else queryset
