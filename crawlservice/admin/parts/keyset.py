"""Lists paged by row number: the millionth page costs as much as the first, and nothing is counted.
Searches without an index go through the latest rows, and say so."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib.admin.views.main import PAGE_VAR
from django.core.paginator import Paginator
from django.db.models import Max, QuerySet
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext as _

from crawlservice.admin.parts.lookups import DeclaredList
from crawlservice.models import Page, Task
from crawlservice.tasks.label_rows import TASKS, Place, rows_of
from crawlservice.tasks.labels import of_tasks
from crawlservice.tasks.results.task_rows import first_of_latest, of_one, of_task

BEFORE, AFTER = "before", "after"
FILTERED_ROWS = 200_000  # latest rows searched where a filter has no index
FILTERED_LABELLED = 50_000  # the same, where only rows of some tasks are meant
FILTERED_OF_TASK = 50_000  # latest rows of one task searched: they are further apart
SEARCHED_ROWS = 100_000  # latest rows that match the filters, searched for a text
SEARCHED_LABELLED = 20_000  # latest rows of all tasks that are searched for a label


class KeysetPaginator(Paginator):
    """The interface that the theme's templates expect; KeysetList does the work."""

    template_name = "admin/crawlservice/keyset.html"


class KeysetList(DeclaredList):
    """The newest rows first. ``?before=N`` lists the next older rows than number N, ``?after=N``
    the next newer ones. ``bounds`` is shown on the page: which rows were searched, if not all."""

    bounds: str | Promise = ""

    def get_filters_params(self, params: dict[str, Any] | None = None) -> dict[str, Any]:
        found = super().get_filters_params(params)
        return {name: value for name, value in found.items() if name not in (BEFORE, AFTER)}

    def get_query_string(self, new_params: Any = None, remove: Any = None) -> str:
        """With another filter, the list starts at its newest row."""
        return super().get_query_string(new_params, [*(remove or ()), BEFORE, AFTER])

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request, exclude_parameters)
        slow = getattr(self.model_admin, "slow_filters", ())
        if any(name in self.params for name in slow):
            task = chosen_task(request)
            if task is None:
                looked = FILTERED_ROWS if self._label(request) is None else FILTERED_LABELLED
                newest = self.root_queryset.aggregate(pk=Max("pk"))["pk"] or 0
                rows = rows.filter(pk__gt=newest - looked)
                text = _("searched: the latest {n}; choose a task to search its own")
                self.bounds = text.format(n=f"{looked:,}")
            else:
                first = first_of_latest(self.root_queryset, task, FILTERED_OF_TASK)
                rows = of_task(rows, task, after=first - 1)
                text = _("searched: the latest {n} of this task")
                self.bounds = text.format(n=f"{FILTERED_OF_TASK:,}")
        return rows

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        return ["-pk"]

    def get_results(self, request: HttpRequest) -> None:
        size = self.list_per_page
        label, task = self._label(request), chosen_task(request)
        read: Any = row_number if label is None else Place.read
        before, after = (read(request.GET.get(name)) for name in (BEFORE, AFTER))
        before, newest = (before, True) if after is None else (None, False)
        reached = None
        if label is None:
            found = [*self._rows(task, before, after)[: size + 1]]
        else:
            beyond = before if newest else after
            found, reached = rows_of(self.queryset, label, beyond, size + 1, newest=newest)
        shown, more = found[:size], len(found) > size
        if reached is not None:
            text = _("searched: {n} tasks with this label; turn the page to search further")
            self.bounds = text.format(n=f"{TASKS:,}")
        if newest:
            newer, older = before is not None, more
        else:
            newer, older, shown = more, True, shown[::-1]
        self.result_list = shown
        self.newer = self._turn(AFTER, shown[0], label) if newer and shown else ""
        self.older = self._turn(BEFORE, shown[-1], label) if older and shown else ""
        if reached is not None and not more:
            turned = self._place(BEFORE if newest else AFTER, str(reached))
            self.older, self.newer = (turned, self.newer) if newest else (self.older, turned)
        self.newest = self._place(BEFORE, None) if newer else ""
        self.result_count = self.full_result_count = len(shown)
        self.can_show_all, self.multi_page, self.show_all = False, False, False
        self.show_admin_actions = True
        self.paginator = KeysetPaginator(shown, size)
        if "shown_labels" in self.list_display:
            numbers = {row: row.pk if self.model is Task else row.task_id for row in shown}
            known = of_tasks(number for number in numbers.values() if number is not None)
            for row, number in numbers.items():
                row.known_labels = known.get(number, {})

    def _rows(self, task: int | None, before: int | None, after: int | None) -> QuerySet[Any]:
        """The rows from there on: the oldest first if ``after`` is given, otherwise the newest."""
        rows: QuerySet[Any] = self.queryset
        if task is not None:
            return of_task(rows, task, after=after, before=before, newest=after is None)
        if self.model is Page and (group := row_number(self.params.get("group"))) is not None:
            sides = {"after": after, "before": before}
            return of_one(rows, "error_group", group, **sides, newest=after is None)
        if after is not None:
            return rows.filter(pk__gt=after).order_by("pk")
        rows = rows.order_by("-pk")
        return rows if before is None else rows.filter(pk__lt=before)

    def _label(self, request: HttpRequest) -> str | None:
        """The label of whose tasks rows are shown. Tasks themselves are filtered by a query."""
        of_tasks = self.model is not Task and chosen_task(request) is None
        return request.GET.get("label") if of_tasks else None

    def _turn(self, name: str, row: Any, label: str | None) -> str:
        return self._place(name, row.pk if label is None else str(Place(row.task_id, row.pk)))

    def _place(self, name: str, place: int | str | None) -> str:
        """The query string of another page of this list."""
        words = {**self.params}
        for gone in (BEFORE, AFTER, PAGE_VAR):
            words.pop(gone, None)
        if place is not None:
            words[name] = place
        return "?" + urlencode(words, doseq=True)


class SearchedList(KeysetList):
    """A list that says how far its search went."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        if self.query:
            text, n = _("searched: the latest {n} that match the filters"), SEARCHED_ROWS
            if self._label(request) is not None:
                text, n = _("searched: the latest {n} of all tasks"), SEARCHED_LABELLED
            self.bounds = text.format(n=f"{n:,}")


def latest(rows: QuerySet[Any], request: HttpRequest) -> QuerySet[Any]:
    """The latest SEARCHED_ROWS of the rows; of one task, if the request names it."""
    task = chosen_task(request)
    if task is not None:
        return of_task(rows, task, after=first_of_latest(rows, task, SEARCHED_ROWS) - 1)
    searched = SEARCHED_LABELLED if "label" in request.GET else SEARCHED_ROWS
    last = rows.order_by("-pk").values_list("pk", flat=True)[searched - 1 : searched]
    for pk in last:
        return rows.filter(pk__gte=pk)
    return rows


def chosen_task(request: HttpRequest) -> int | None:
    """The task number given to the filter by task."""
    return row_number(request.GET.get("task"))


def row_number(text: str | int | None) -> int | None:
    """The text as a row number that the database can store; None for anything else."""
    digits = str(text)
    return int(digits) if digits.isdecimal() and len(digits) < 19 else None
