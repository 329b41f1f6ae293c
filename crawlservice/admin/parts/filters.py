"""Filters of lists: by time, by one of some values, and by the values of the latest rows, because
finding all values would read the whole table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import Max, Model, Q, QuerySet
from django.http import HttpRequest
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext_lazy as _

from crawlservice.admin.parts.keyset import chosen_task, row_number
from crawlservice.models import ErrorGroup, Label, Page, Task
from crawlservice.tasks.label_rows import labelled, tasks_with
from crawlservice.tasks.labels import BadLabel, parse
from crawlservice.tasks.results.task_rows import all_before, none_before, of_task

SINCE, UNTIL = "since", "until"
RECENT_ROWS = 20_000  # rows whose versions are offered
RECENT_ERRORS = 2_000  # errors whose reasons are offered
RECENT_TASKS = 1_000  # tasks whose spiders and users are offered
MOST_LABELS = 100  # labels offered
RECENT_GROUPS = 20  # groups of errors that are offered
TASKS = 100  # tasks of a spider whose pages and items are shown


def moment_of(text: object) -> datetime | None:
    """``2026-01-31T12:00``; None for anything else."""
    try:
        found = parse_datetime(str(text or ""))
    except ValueError:
        return None
    return found if found is None or found.tzinfo else found.replace(tzinfo=UTC)


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


def _recent_tasks() -> list[tuple[str, str]]:
    return [(str(task.pk), str(task)) for task in Task.objects.only("spider")[:20]]


def _of_task(rows: QuerySet[Any], text: str) -> QuerySet[Any]:
    task = row_number(text)
    return rows.none() if task is None else of_task(rows, task)


RecentTask = filter_by(_("task"), "task", _recent_tasks, _of_task)


def _recent_spiders() -> list[tuple[str, str]]:
    latest = Task.objects.order_by("-pk").values_list("spider", flat=True)[:RECENT_TASKS]
    return [(spider, spider) for spider in sorted(set(latest))]


def _of_spider(rows: QuerySet[Any], spider: str) -> QuerySet[Any]:
    """Of pages and items, only the spider's latest TASKS tasks are searched."""
    if rows.model is Task:
        return rows.filter(spider=spider)
    tasks = Task.objects.filter(spider=spider).order_by("-pk")
    return rows.filter(task__in=[*tasks.values_list("pk", flat=True)[:TASKS]])


RecentSpider = filter_by(_("spider"), "spider", _recent_spiders, _of_spider)


class RecentLabel(admin.SimpleListFilter):
    """Labels of the latest tasks; ``?label=domain=news`` takes any. Rows of tasks with a label are
    found by the list (KeysetList), which knows the fast order."""

    title = _("label")
    parameter_name = "label"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        newest = Task.objects.aggregate(pk=Max("pk"))["pk"] or 0
        rows = Label.objects.filter(task__gt=newest - RECENT_TASKS).order_by("name", "value")
        found = {f"{name}={value}" for name, value in rows.values_list("name", "value")}
        if chosen := self.value():
            found.add(chosen)
        return [(label, label) for label in sorted(found)[:MOST_LABELS]]

    def has_output(self) -> bool:
        return True

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        label = self.value()
        if label is None:
            return queryset
        try:
            parse(label)
        except BadLabel as error:
            raise ValueError(str(error)) from None
        if queryset.model is Task:
            return labelled(queryset, label)
        task = chosen_task(request)
        has = task is None or tasks_with(label).filter(task=task).exists()
        return queryset if has else queryset.none()


def _recent_users() -> list[tuple[str, str]]:
    """Users who submitted one of the latest tasks."""
    latest = Task.objects.order_by("-pk").values("user")[:RECENT_TASKS]
    numbers = {row["user"] for row in latest} - {None}
    users = get_user_model().objects.filter(pk__in=numbers).order_by("username")
    return [(str(user.pk), user.get_username()) for user in users]


RecentUser = filter_by(
    *(_("user"), "user", _recent_users),
    lambda rows, user: rows.filter(user=user) if user.isdecimal() else rows.none(),
)


def _recent_reasons() -> list[tuple[str, str]]:
    failed = Page.objects.filter(state=Page.State.ERROR).order_by("-id")
    latest = failed.values_list("reason", flat=True)[:RECENT_ERRORS]
    return [(reason, reason) for reason in sorted(set(latest)) if reason]


RecentReason = filter_by(
    *(_("reason"), "reason", _recent_reasons),
    lambda rows, reason: rows.filter(state=Page.State.ERROR, reason=reason),
)


class RecentGroup(admin.SimpleListFilter):
    """The newest groups of errors; ``?group=7`` takes any."""

    title = _("cause")
    parameter_name = "group"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        rows = ErrorGroup.objects.order_by("-created_at")
        found = {str(row.pk): str(row) for row in rows[:RECENT_GROUPS]}
        if (chosen := self.value()) and chosen.isdecimal() and chosen not in found:
            row = rows.filter(pk=int(chosen)).first() if len(chosen) < 19 else None
            found[chosen] = str(row or chosen)
        return [*found.items()]

    def has_output(self) -> bool:
        return True

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        if value is None:
            return queryset
        if not value.isdecimal() or len(value) > 18:
            return queryset.none()
        return queryset.filter(error_group__gte=int(value), error_group__lte=int(value))


def recent_version(model: type[Model]) -> type[admin.SimpleListFilter]:
    """Code versions of the latest rows of a model."""

    def offered() -> list[tuple[str, str]]:
        rows = model._default_manager.order_by()
        newest = rows.aggregate(pk=Max("pk"))["pk"] or 0
        latest = rows.filter(pk__gt=newest - RECENT_ROWS).values_list("version", flat=True)
        found = latest.annotate(last=Max("pk")).order_by("-last")
        return [(version, version) for version in found if version]

    return filter_by(
        _("code version"), "version", offered, lambda rows, value: rows.filter(version=value)
    )
