"""Downloads of a task: its items, their comparison with another run, its kept pages and its log."""

from __future__ import annotations

from collections.abc import Iterator

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import (
    Http404,
    HttpRequest,
    HttpResponseBase,
    HttpResponseRedirect,
    StreamingHttpResponse,
)
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_safe

from crawlframe.errors import CrawlframeError
from crawlframe.warc import FORMATS
from crawlservice.admin.parts.live import View
from crawlservice.admin.parts.steering import note
from crawlservice.admin.tasks import item_comparison, item_table
from crawlservice.admin.tasks.item_table import task_of
from crawlservice.models import KeptPage
from crawlservice.pages.export import NAMES, PagesExport
from crawlservice.tasks.progress import log
from crawlservice.tasks.results import export

ROWS = {"items": item_table.chosen_rows, "compare": item_comparison.changes}
ENDS = {"items": "", "compare": "-changes"}  # of the names of their files


def urls(site: AdminSite) -> list[URLPattern]:
    def own(place: str, view: View, name: str, **given: str) -> URLPattern:
        shown = site.admin_view(require_safe(view))
        return path(f"<int:pk>/{place}", shown, given, name=f"crawlservice_task_{name}_file")

    tabs = (own(f"{tab}/<slug:suffix>/", rows_file, tab, tab=tab) for tab in ROWS)
    pages = own("pages.<slug:format>", pages_file, "pages")
    return [*tabs, pages, own("log.txt", log_file, "log")]


def rows_file(request: HttpRequest, pk: int, tab: str, suffix: str) -> HttpResponseBase:
    """A tab's rows as a file, whatever the size of the runs."""
    task = task_of(request, pk, "view_item")
    if f".{suffix}" not in export.FORMATS:
        raise Http404
    query = request.GET.urlencode()
    try:
        pieces = export.stream_chunks(ROWS[tab](request, task), f".{suffix}")
    except CrawlframeError as error:
        messages.error(request, str(error))
        return HttpResponseRedirect(
            f"{reverse(f'admin:crawlservice_task_{tab}', args=[pk])}?{query}"
        )
    note(request, "export", task, format=suffix, **{tab: query} if query else {})
    return _sent(pieces, f"task-{pk}{ENDS[tab]}.{suffix}")


def pages_file(request: HttpRequest, pk: int, format: str) -> HttpResponseBase:
    """The kept pages as a WARC or WACZ file."""
    if not request.user.has_perm("crawlservice.view_pagebody"):
        raise PermissionDenied
    if format not in NAMES:
        raise Http404
    task, suffix = task_of(request, pk), NAMES[format]
    try:
        found = PagesExport(KeptPage.objects.filter(task=task))
    except CrawlframeError as error:
        messages.error(request, str(error))
        return HttpResponseRedirect(reverse("admin:crawlservice_task_pages", args=[pk]))
    note(request, "export pages", task, format=format)
    pieces = found.stream(suffix, f"{task.spider}-{pk}")
    return _sent(pieces, f"task-{pk}{suffix}", FORMATS[suffix])


def log_file(request: HttpRequest, pk: int) -> HttpResponseBase:
    """All lines as text, the oldest first."""
    lines = log.lines_of(task_of(request, pk).pk).iterator()
    pieces = (f"{log.as_text(line)}\n".encode() for line in lines)
    return _sent(pieces, f"task-{pk}.log", "text/plain; charset=utf-8")


def _sent(
    pieces: Iterator[bytes], name: str, kind: str = "application/octet-stream"
) -> StreamingHttpResponse:
    shown = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingHttpResponse(pieces, content_type=kind, headers=shown)
