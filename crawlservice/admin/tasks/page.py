"""The page of one task: its progress, the outcome of its requests, and its actions."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.db.models.functions import Now
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseRedirect,
    JsonResponse,
    StreamingHttpResponse,
)
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST, require_safe

from crawlframe.errors import CrawlframeError
from crawlframe.warc import FORMATS
from crawlservice.accounts.roles import may_steer, may_submit
from crawlservice.admin.pages import reparse as reparsepage
from crawlservice.admin.parts.keyset import row_number
from crawlservice.admin.parts.live import STOP, part
from crawlservice.admin.parts.steering import VERBS, note, steer
from crawlservice.admin.tasks import item_comparison as itemcomparison
from crawlservice.admin.tasks import item_table as itemtable
from crawlservice.admin.tasks import labels as tasklabels
from crawlservice.admin.tasks import limits, quality
from crawlservice.config import effective
from crawlservice.display import state_label
from crawlservice.hosts.host_labels import wait_of
from crawlservice.models import KeptPage, LogLine, Task
from crawlservice.monitoring import charts
from crawlservice.pages.export import NAMES, PagesExport
from crawlservice.proxies.use import lacks_of, no_proxy
from crawlservice.reparse.submission import fetches, has_pages
from crawlservice.tasks.labels import of_task
from crawlservice.tasks.progress import layers, log, summary
from crawlservice.tasks.progress.forecast import forecast
from crawlservice.tasks.progress.progress import Progress, read, yielded
from crawlservice.tasks.results import export
from crawlservice.tasks.results.versions import pages_by_version
from crawlservice.tasks.stored_limits import obeys_robots

LINES = 100  # lines on the page
LATE_SPAN = timedelta(seconds=5)  # after the end of a task, in which its last lines arrive


class Button(NamedTuple):
    verb: str
    text: str | Promise
    icon: str
    tone: str = ""


PAUSE = Button("pause", _("Pause"), "pause")
RESUME = Button("resume", _("Resume"), "play_arrow")
CANCEL = Button("cancel", _("Cancel"), "stop", "danger")
RETRY = Button("retry", _("Retry failed"), "replay")
BUTTONS = {
    Task.State.RUNNING: (PAUSE, CANCEL),
    Task.State.PAUSED: (RESUME, CANCEL),
}


def urls(site: AdminSite) -> list[URLPattern]:
    name = "crawlservice_task_{}".format

    def live(place: str, view: Any) -> URLPattern:
        return path(f"<int:pk>/{place}/", part(site, view, "view_task"), name=name(place))

    return [
        live("now", now),
        live("summary", summary_part),
        live("chart", chart),
        live("log", log_part),
        live("quality", quality.part),
        path("<int:pk>/accept/", site.admin_view(quality.accept), name=name("accept")),
        path("<int:pk>/log.txt", site.admin_view(download_log), name=name("logfile")),
        path(
            "<int:pk>/limits/",
            site.admin_view(lambda request, pk: limits.page(site, request, pk)),
            name=name("limits"),
        ),
        path(
            "<int:pk>/labels/",
            site.admin_view(lambda request, pk: tasklabels.page(site, request, pk)),
            name=name("labels"),
        ),
        path(
            "<int:pk>/reparse/",
            site.admin_view(lambda request, pk: reparsepage.page(site, request, pk)),
            name=name("reparse"),
        ),
        *itemtable.urls(site),
        *itemcomparison.urls(site),
        path("<int:pk>/export/<slug:suffix>/", site.admin_view(download), name=name("export")),
        path(
            "<int:pk>/pages.<slug:format>",
            site.admin_view(download_pages),
            name=name("pages_export"),
        ),
        *(
            path(f"<int:pk>/{verb}/", site.admin_view(act), {"verb": verb}, name=name(verb))
            for verb in (*VERBS, RETRY.verb)
        ),
    ]


def page(site: AdminSite, request: HttpRequest, pk: str) -> HttpResponse:
    if request.method not in ("GET", "HEAD") or not request.user.has_perm("crawlservice.view_task"):
        raise PermissionDenied
    task = _task(pk)
    context: dict[str, Any] = {
        **site.each_context(request),
        "title": str(task),
        "opts": Task._meta,
        "is_fullwidth": "1",
        "own_settings": effective.changed_of(task),
        "labels": of_task(task.pk),
        "tasks_url": reverse("admin:crawlservice_task_changelist"),
        "may_label": may_steer(request.user, task),
        "may_limit": task.state in limits.CHANGEABLE and may_steer(request.user, task),
        "archives": [*NAMES] if KeptPage.objects.filter(task=task).exists() else [],
        "formats": [suffix.removeprefix(".") for suffix in export.FORMATS],
        **_now(request, task),
        **_summary(task),
        "quality": quality.shown(request, task),
        **_shown_log(task),
        "log_complete": _log_is_complete(task),
    }
    return TemplateResponse(request, "admin/crawlservice/task.html", context)


@require_safe
def now(request: HttpRequest, pk: int) -> HttpResponse:
    """The fragment with the live numbers."""
    context = _now(request, _task(pk))
    status = STOP if context["progress"].settled else 200
    return TemplateResponse(request, "admin/crawlservice/_task_now.html", context, status=status)


@require_safe
def summary_part(request: HttpRequest, pk: int) -> HttpResponse:
    """The fragment with the outcome of its requests."""
    task = _task(pk)
    status = 200 if task.state in Task.ACTIVE else STOP
    name = "admin/crawlservice/_task_summary.html"
    return TemplateResponse(request, name, _summary(task), status=status)


@require_safe
def log_part(request: HttpRequest, pk: int) -> HttpResponse:
    """The fragment with the newest lines of its log."""
    task = _task(pk)
    status = STOP if _log_is_complete(task) else 200
    name = "admin/crawlservice/_task_log.html"
    return TemplateResponse(request, name, _shown_log(task), status=status)


@require_safe
def chart(request: HttpRequest, pk: int) -> JsonResponse:
    progress = read([_task(pk)])[0]
    return JsonResponse({"points": charts.of_task(progress), "ended": progress.ended})


@require_POST
def act(request: HttpRequest, pk: int, verb: str) -> HttpResponse:
    """Pauses, resumes, cancels or retries the task."""
    task = _task(pk)
    try:
        messages.success(request, steer(request, task, verb))
    except CrawlframeError as error:
        messages.error(request, str(error))
    return HttpResponseRedirect(reverse("admin:crawlservice_task_change", args=[pk]))


@require_safe
def download(request: HttpRequest, pk: int, suffix: str) -> HttpResponseBase:
    """Downloads the items as a file."""
    if not request.user.has_perm("crawlservice.view_item"):
        raise PermissionDenied
    if f".{suffix}" not in export.FORMATS:
        raise Http404
    task = _task(pk)
    try:
        pieces = export.stream(task, f".{suffix}")
    except CrawlframeError as error:
        messages.error(request, str(error))
        return HttpResponseRedirect(reverse("admin:crawlservice_task_change", args=[pk]))
    note(request, "export", task, format=suffix)
    return StreamingHttpResponse(
        pieces,
        content_type="application/octet-stream",
        headers={"Content-Disposition": f'attachment; filename="task-{pk}.{suffix}"'},
    )


@require_safe
def download_pages(request: HttpRequest, pk: int, format: str) -> HttpResponseBase:
    """Downloads the kept pages as a WARC or WACZ file."""
    if not request.user.has_perm("crawlservice.view_pagebody"):
        raise PermissionDenied
    if format not in NAMES:
        raise Http404
    task, suffix = _task(pk), NAMES[format]
    try:
        export = PagesExport(KeptPage.objects.filter(task=task))
    except CrawlframeError as error:
        messages.error(request, str(error))
        return HttpResponseRedirect(reverse("admin:crawlservice_task_change", args=[pk]))
    note(request, "export pages", task, format=format)
    return StreamingHttpResponse(
        export.stream(suffix, f"{task.spider}-{pk}"),
        content_type=FORMATS[suffix],
        headers={"Content-Disposition": f'attachment; filename="task-{pk}{suffix}"'},
    )


def _task(pk: int | str) -> Task:
    return get_object_or_404(Task.objects.defer("seeds").select_related("user"), pk=row_number(pk))


def _now(request: HttpRequest, task: Task) -> dict[str, Any]:
    progress = read([task])[0]
    rate = charts.rate(progress)
    known = forecast(progress)
    return {
        "task": task,
        "progress": progress,
        "known": known,
        "tone": state_label(task.status)[1],
        "ignores_robots": not obeys_robots(task) and fetches(task),
        "starting": None if progress.ended else yielded([task.pk]).get(task.pk),
        "wait": progress.wait and wait_of(progress.wait),
        "lacks": [] if progress.ended else [no_proxy(one) for one in lacks_of(task.pk)],
        "layers": layers.of_task(progress),
        "waits_for_hand": layers.waits_for_hand(task),
        "rate": rate,
        "eta": known.seconds(rate),
        "buttons": _buttons(progress) if may_steer(request.user, task) else (),
        "may_submit": may_submit(request.user),
        "may_parse": may_submit(request.user) and has_pages(task),
        "may_delete": progress.ended and request.user.has_perm("crawlservice.delete_task"),
    }


def _summary(task: Task) -> dict[str, Any]:
    return {
        "task": task,
        "found": summary.summarize(task),
        "versions": pages_by_version(task),
        **reparsepage.shown(task),
        "latest": summary.MAX_ROWS,
    }


def _buttons(progress: Progress) -> tuple[Button, ...]:
    if progress.ended:
        return (RETRY,) if progress.ne and progress.settled else ()
    return BUTTONS.get(Task.State(progress.task.state), ())


def _shown_log(task: Task) -> dict[str, Any]:
    """The newest lines, for the template."""
    lines = [(line, log.level_name(line.level), _tone(line)) for line in log.latest(task.pk, LINES)]
    return {
        "task": task,
        "lines": lines,
        "more": len(lines) == LINES,
        "shown": LINES,
        "dropped": log.dropped(task.pk),
    }


def _log_is_complete(task: Task) -> bool:
    """Whether no further lines are expected."""
    ended = Task.objects.filter(pk=task.pk, finished_at__lt=Now() - LATE_SPAN)
    return ended.exclude(state__in=Task.ACTIVE).exists()


@require_safe
def download_log(request: HttpRequest, pk: int) -> HttpResponseBase:
    """All lines as text, the oldest first."""
    if not request.user.has_perm("crawlservice.view_task"):
        raise PermissionDenied
    task = get_object_or_404(Task.objects.only("pk"), pk=pk)
    return StreamingHttpResponse(
        _log_text(task.pk),
        content_type="text/plain; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="task-{task.pk}.log"'},
    )


def _log_text(task: int) -> Iterator[str]:
    for line in log.lines_of(task).iterator():
        yield f"{log.as_text(line)}\n"


def _tone(line: LogLine) -> str:
    if line.level >= logging.ERROR:
        return "bad"
    return "warn" if line.level >= logging.WARNING else "muted"
