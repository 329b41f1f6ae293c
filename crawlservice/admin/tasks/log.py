"""The log of a task on its page, and as a file."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from crawlservice.models import LogLine, Task
from crawlservice.tasks.progress import log

LINES = 100  # lines on the page
LATE_SPAN = timedelta(seconds=5)  # after the end of a task, in which its last lines arrive


def shown(task: Task) -> dict[str, Any]:
    """The newest lines, for the template."""
    lines = [(line, log.level_name(line.level), _tone(line)) for line in log.latest(task.pk, LINES)]
    return {
        "task": task,
        "lines": lines,
        "more": len(lines) == LINES,
        "shown": LINES,
        "dropped": log.dropped(task.pk),
    }


def is_complete(task: Task) -> bool:
    """Whether no further lines are expected."""
    ended = Task.objects.filter(pk=task.pk, finished_at__lt=Now() - LATE_SPAN)
    return ended.exclude(state__in=Task.ACTIVE).exists()


@require_safe
def download(request: HttpRequest, pk: int) -> HttpResponseBase:
    """All lines as text, the oldest first."""
    if not request.user.has_perm("crawlservice.view_task"):
        raise PermissionDenied
    task = get_object_or_404(Task.objects.only("pk"), pk=pk)
    return StreamingHttpResponse(
        _text(task.pk),
        content_type="text/plain; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="task-{task.pk}.log"'},
    )


def _text(task: int) -> Iterator[str]:
    for line in log.lines_of(task).iterator():
        yield f"{log.as_text(line)}\n"


def _tone(line: LogLine) -> str:
    if line.level >= logging.ERROR:
        return "bad"
    return "warn" if line.level >= logging.WARNING else "muted"
