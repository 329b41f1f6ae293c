"""The filter by time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from crawlservice.admin.parts.columns import moment_of
from crawlservice.tasks.results.task_rows import all_before, none_before

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise


SINCE, UNTIL = "since", "until"


class Created(admin.ListFilter):
    """``?since=2026-01-31T12:00&until=…``, in the time zone of the service, UTC."""

    title = _("time")
    template = "admin/crawlservice/created.html"

    def __init__(
        self, request: HttpRequest, params: dict[str, list[str]], model: type[Model], admin: Any
    ) -> None:
        super().__init__(request, params, model, admin)
        self._model = model
        for name in (SINCE, UNTIL):
            if name in params:
                self.used_parameters[name] = params.pop(name)[-1]

    def has_output(self) -> bool:
        return True

    def expected_parameters(self) -> list[str | None]:
        return [SINCE, UNTIL]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        since, until = (moment_of(self.used_parameters.get(name)) for name in (SINCE, UNTIL))
        if since is not None:
            first = all_before(self._model, since)
            queryset = queryset.filter(pk__gt=first, created_at__gte=since)
        if until is not None:
            last = none_before(self._model, until)
            queryset = queryset.filter(pk__lte=last, created_at__lt=until)
        return queryset

    def choices(self, changelist: Any) -> Iterator[dict[str, Any]]:
        others = {
            name: value
            for name, value in changelist.params.items()
            if name not in (SINCE, UNTIL, "before", "after")
        }
        yield {
            "others": others,
            "selected": bool(self.used_parameters),
            "since": self.used_parameters.get(SINCE, ""),
            "until": self.used_parameters.get(UNTIL, ""),
        }


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
