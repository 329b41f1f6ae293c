"""Downloads of a task: its items, their comparison with another run, its kept pages and its log."""

from __future__ import annotations

from collections.abc import Iterator

from django.contrib import messages
from django.http import (
    Http404,
    HttpRequest,
    HttpResponseBase,
    HttpResponseRedirect,
    StreamingHttpResponse,
)
from django.urls import reverse

from crawlframe.errors import CrawlframeError
from crawlframe.warc import FORMATS
from crawlservice.admin.parts.pages import page, to
from crawlservice.admin.parts.steering import TASK, note, task_of
from crawlservice.admin.tasks import item_tabs
from crawlservice.models import KeptPage
from crawlservice.pages.export import NAMES, PagesExport
from crawlservice.tasks.progress import log
from crawlservice.tasks.results import export

ROWS = {"items": item_tabs.chosen_rows, "compare": item_tabs.changes}
ENDS = {"items": "", "compare": "-changes"}  # of the names of their files


@page(f"{TASK}/items/<slug:suffix>/", "crawlservice_task_items_file", tab="items")
@page(f"{TASK}/compare/<slug:suffix>/", "crawlservice_task_compare_file", tab="compare")
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


@page(f"{TASK}/pages.<slug:format>", "crawlservice_task_pages_file", "view_pagebody")
def pages_file(request: HttpRequest, pk: int, format: str) -> HttpResponseBase:
    """The kept pages as a WARC or WACZ file."""
    if format not in NAMES:
        raise Http404
    task, suffix = task_of(request, pk), NAMES[format]
    try:
        found = PagesExport(KeptPage.objects.filter(task=task))
    except CrawlframeError as error:
        messages.error(request, str(error))
        return to("crawlservice_task_pages", pk)
    note(request, "export pages", task, format=format)
    pieces = found.stream(suffix, f"{task.spider}-{pk}")
    return _sent(pieces, f"task-{pk}{suffix}", FORMATS[suffix])


@page(f"{TASK}/log.txt", "crawlservice_task_log_file")
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
