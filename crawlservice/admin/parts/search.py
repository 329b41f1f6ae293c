"""Search without an index: it goes through the latest rows, and says so."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _

from crawlservice.admin.parts.keyset import KeysetList, chosen_task
from crawlservice.tasks.results.task_rows import first_of_latest, of_task

SEARCHED_ROWS = 100_000  # latest rows that match the filters
SEARCHED_LABELLED = 20_000  # latest rows of all tasks, of which those with a label are meant


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
