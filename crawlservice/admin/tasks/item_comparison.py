"""The page that compares the items of a task with those of another run, and its download."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseRedirect,
)
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from crawlframe.errors import CrawlframeError
from crawlservice.admin.parts.keyset import row_number
from crawlservice.admin.parts.steering import note
from crawlservice.admin.tasks.item_table import cell, file, task_of
from crawlservice.models import Task
from crawlservice.tasks.results import export
from crawlservice.tasks.results.comparison import Change, Compared, compared, whole

MAX_CHANGES = 200  # changes of each kind on the page
KINDS = (("added", _("Added")), ("gone", _("Gone")), ("changed", _("Changed")))


class ChangeGroup(NamedTuple):
    """The changes of one kind: ``rows`` has the first of them."""

    kind: str
    title: Any
    total: int
    rows: list[tuple[str, list[tuple[str, str, str]]]]


def urls(site: AdminSite) -> list[URLPattern]:
    name = "crawlservice_task_{}".format

    @require_safe
    def shown_page(request: HttpRequest, pk: int) -> HttpResponse:
        return page(site, request, pk)

    return [
        path("<int:pk>/compare/", site.admin_view(shown_page), name=name("compare")),
        path(
            "<int:pk>/compare/<slug:suffix>/",
            site.admin_view(download),
            name=name("compare_download"),
        ),
    ]


def page(site: AdminSite, request: HttpRequest, pk: int) -> HttpResponse:
    task = task_of(request, pk)
    given, key = request.GET.get("with", ""), request.GET.get("key", "")
    found: Compared | None = None
    problem = ""
    try:
        found = compared(task, _number(given), key)
    except CrawlframeError as error:
        problem = str(error)
    other = given if found is None else found.old.pk
    context: dict[str, Any] = {
        **site.each_context(request),
        "title": _("Changes of {task}").format(task=task),
        "opts": Task._meta,
        "is_fullwidth": "1",
        "task": task,
        "found": found,
        "problem": problem,
        "other": other,
        "key": key if found is None else found.key,
        "parts": [] if found is None else _parts(found),
        "query": "?" + urlencode({"with": other, "key": key if found is None else found.key}),
        "formats": [suffix.removeprefix(".") for suffix in export.FORMATS],
        "shown": MAX_CHANGES,
    }
    return TemplateResponse(request, "admin/crawlservice/item_comparison.html", context)


def _parts(found: Compared) -> list[ChangeGroup]:
    return [
        ChangeGroup(
            *(kind, title, getattr(found.counts, kind)),
            [_row(one) for one in found.changes if one.kind == kind][:MAX_CHANGES],
        )
        for kind, title in KINDS
    ]


def _row(change: Change) -> tuple[str, list[tuple[str, str, str]]]:
    fields = change.fields.items()
    return cell(change.key), [(name, cell(old), cell(new)) for name, (old, new) in fields]


def _number(text: str) -> int | None:
    """0, which no task has, for what is not a number."""
    return (row_number(text) or 0) if text else None


@require_safe
def download(request: HttpRequest, pk: int, suffix: str) -> HttpResponseBase:
    """All changes, whatever the size of the runs: one row for each field that differs."""
    task = task_of(request, pk)
    if f".{suffix}" not in export.FORMATS:
        raise Http404
    given, key = request.GET.get("with", ""), request.GET.get("key", "")
    try:
        chunks = whole(task, _number(given), key)
        pieces = export.stream_chunks(chunks, f".{suffix}")
    except CrawlframeError as error:
        messages.error(request, str(error))
        place = reverse("admin:crawlservice_task_compare", args=[pk])
        return HttpResponseRedirect(place)
    note(request, "export", task, format=suffix, compared_with=given)
    return file(pieces, f"task-{pk}-changes.{suffix}")
