"""The filter by time. There is no index on time; row numbers rise with it, so the first matching
number is found by looking at a few single rows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext_lazy as _

SINCE, UNTIL = "since", "until"
LEAP = timedelta(minutes=5)  # by how much a row with a lower number may be younger


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
        since, until = (_moment(self.used_parameters.get(name)) for name in (SINCE, UNTIL))
        if since is not None:
            first = last_before(self._model, since - LEAP)
            queryset = queryset.filter(pk__gt=first, created_at__gte=since)
        if until is not None:
            last = last_before(self._model, until + LEAP)
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


def last_before(model: type[Model], moment: datetime) -> int:
    """The number of the last row created before the moment; 0 if there is none."""
    rows = model._default_manager.order_by("pk").values_list("pk", "created_at")
    newest = rows.last()
    low, high = 0, 0 if newest is None else newest[0]
    while low < high:
        middle = (low + high) // 2
        found = rows.filter(pk__gt=middle)[:1]
        for pk, at in found:
            if at < moment:
                low = pk
            else:
                high = middle
    return low


def _moment(text: object) -> datetime | None:
    try:
        found = parse_datetime(str(text or ""))
    except ValueError:
        return None
    return found if found is None or found.tzinfo else found.replace(tzinfo=UTC)
