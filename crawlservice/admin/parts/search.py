"""Search without an index: it goes through the latest rows, and says so."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from crawlservice.admin.parts.columns import column
from crawlservice.admin.parts.keyset import KeysetList, chosen_task
from crawlservice.admin.parts.own_page import OwnPage
from crawlservice.admin.parts.read_only import ReadOnly
from crawlservice.display import task_link
from crawlservice.tasks.results.task_rows import first_of_latest, of_task

SEARCHED_ROWS = 100_000  # latest rows that match the filters
SEARCHED_LABELLED = 20_000  # latest rows of all tasks that are searched for a label
URL_CHARS = 150  # characters of a URL in the list


def _short(url: str) -> str:
    return url if len(url) <= URL_CHARS else f"{url[: URL_CHARS - 1]}…"


class SearchedList(KeysetList):
    """A list that says how far its search went."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        if self.query:
            text, n = gettext("searched: the latest {n} that match the filters"), SEARCHED_ROWS
            if self._label(request) is not None:
                text, n = gettext("searched: the latest {n} of all tasks"), SEARCHED_LABELLED
            self.bounds = text.format(n=f"{n:,}")


class SearchedRows(ReadOnly):
    """A list that searches the latest rows."""

    changelist = SearchedList

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        rows = latest(queryset, request) if search_term else queryset
        found: tuple[QuerySet[Any], bool] = super().get_search_results(request, rows, search_term)
        return found


class UrlRows(SearchedRows, OwnPage):
    """A list of rows with a URL of a task."""

    search_fields = ("url",)
    search_help_text = _("Part of the URL")
    task_number = column(task_link, _("task"), "task_id")
    short_url = column(_short, _("URL"), "url")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if text := search_term.strip():
            queryset = latest(queryset, request).filter(url__icontains=text)
        return queryset, False


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
