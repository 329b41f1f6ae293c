"""Search without an index: it goes through the latest rows, and says so."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _

from crawlservice.admin.keyset import KeysetList
from crawlservice.tasks.task_rows import first_of_latest, of_task

SEARCHED = 100_000  # latest rows that match the filters


class SearchedList(KeysetList):
    """A list that says how far its search went."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        if self.query:
            text = _("searched: the latest {n} that match the filters")
            if "label" in self.params:
                text = _("searched: the latest {n} of all tasks")
            self.bounds = text.format(n=f"{SEARCHED:,}")


def latest(rows: QuerySet[Any], task: int | None = None) -> QuerySet[Any]:
    """The latest SEARCHED of the rows; of one task, if ``task`` is given."""
    if task is not None:
        return of_task(rows, task, after=first_of_latest(rows, task, SEARCHED) - 1)
    last = rows.order_by("-pk").values_list("pk", flat=True)[SEARCHED - 1 : SEARCHED]
    for pk in last:
        return rows.filter(pk__gte=pk)
    return rows
