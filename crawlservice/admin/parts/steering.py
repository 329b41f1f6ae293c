"""A task in the admin: who may see and control it. Each action is recorded in the journal."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property, partial
from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from crawlservice.accounts import journal
from crawlservice.accounts.roles import may_steer
from crawlservice.admin.parts.keyset import row_number
from crawlservice.admin.parts.pages import check
from crawlservice.models import Task
from crawlservice.tasks.progress.progress import Progress, read
from crawlservice.tasks.retry import retry
from crawlservice.tasks.submit import SWEEP, cancel, pause, resume

TASK = "crawlservice/task/<int:pk>"  # the address of the pages of a task
VERBS: dict[str, Callable[[int], Any]] = {"pause": pause, "resume": resume, "cancel": cancel}
DONE: dict[str, str | Promise] = {
    "pause": gettext_lazy("Tasks paused: {n}"),
    "resume": gettext_lazy("Tasks resumed: {n}"),
    "cancel": gettext_lazy("Tasks cancelled: {n}"),
    "retry": gettext_lazy("Tasks that run again: {n}"),
}


class TaskView:
    """A task as one page shows it. The progress is read once, for the first part of the page that
    needs it."""

    def __init__(self, task: Task) -> None:
        self.task = task

    @cached_property
    def progress(self) -> Progress:
        return read([self.task])[0]


def task_of(request: HttpRequest, pk: int | str, right: str = "view_task") -> Task:
    """Raises PermissionDenied and Http404."""
    check(request, "view_task")
    check(request, right)
    rows = Task.objects.defer("seeds").select_related("user")
    return get_object_or_404(rows, pk=row_number(pk))


def steer(request: HttpRequest, task: Task, verb: str, seconds: float = SWEEP) -> str:
    """Pauses, resumes, cancels (for at most ``seconds``) or retries a task. Returns the message to
    show. Raises PermissionDenied, and CrawlframeError as the verbs do."""
    if verb == "retry":
        return retry_some(request, task)
    _check(request, task)
    change = partial(cancel, seconds=seconds) if verb == "cancel" else VERBS[verb]
    journal.change(verb, change, task.pk, **journal.by(request))
    return str(DONE[verb]).format(n=1)


def retry_some(request: HttpRequest, task: Task, rids: Collection[UUID] | None = None) -> str:
    """Retries the failed requests of a task, all or some. Raises as ``steer`` does."""
    _check(request, task)
    failed = retry(task.pk, rids)
    note(request, "retry", task, requests=failed)
    text = ngettext(
        "Task {task} runs again, with {n} failed request",
        "Task {task} runs again, with {n} failed requests",
        failed,
    )
    return text.format(task=task.pk, n=failed)


def note(request: HttpRequest, verb: str, task: Task, **detail: Any) -> None:
    """Records the action in the journal."""
    journal.record(verb, task=task, **journal.by(request), **detail)


def steered(request: HttpRequest, pk: int) -> Task:
    """The task, for a user who may control it. Raises Http404 and PermissionDenied."""
    task = get_object_or_404(Task.objects.defer("seeds"), pk=pk)
    _check(request, task)
    return task


def _check(request: HttpRequest, task: Task) -> None:
    if not may_steer(request.user, task):
        raise PermissionDenied(_("You may only control your own tasks."))
