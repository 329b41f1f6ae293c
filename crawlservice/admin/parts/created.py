"""Filters: by time, and by one of some values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from django.contrib import admin
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from crawlservice.admin.parts.columns import moment_of
from crawlservice.tasks.results.task_rows import all_before, none_before

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


def filter_by(
    title: Any,
    name: str,
    offered: Callable[[], Iterable[tuple[str, Any]]],
    rows: Callable[[QuerySet[Any], str], QuerySet[Any]],
    *,
    takes_any: bool = False,
) -> type[admin.SimpleListFilter]:
    """A filter of the parameter ``name``. ``offered``: its values with their titles. ``rows``: the
    rows that have a value. ``takes_any``: another value is shown, too."""

    class Filter(admin.SimpleListFilter):
        parameter_name = name

        def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
            found = dict(offered())
            if takes_any and (chosen := self.value()):
                found.setdefault(chosen, chosen)
            return [*found.items()]

        def has_output(self) -> bool:
            return takes_any or super().has_output()

        def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
            value = self.value()
            return rows(queryset, value) if value else queryset

    Filter.title = title
    return Filter


def state_filter(states: Mapping[str, tuple[Any, Q]]) -> type[admin.SimpleListFilter]:
    """``states``: title and condition of the rows by name."""
    return filter_by(
        *(_("state"), "state", lambda: ((name, title) for name, (title, _q) in states.items())),
        lambda rows, name: rows.filter(states[name][1]) if name in states else rows,
    )
