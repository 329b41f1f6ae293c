"""The tab that compares the items of a task with those of another run, and its download."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from crawlframe.errors import CrawlframeError
from crawlservice.admin.parts.keyset import row_number
from crawlservice.admin.tasks.task_view import TaskView
from crawlservice.models import Task
from crawlservice.tasks.results import export
from crawlservice.tasks.results.comparison import Change, Compared, compared, whole

MAX_CHANGES = 200  # changes of each kind on the page
KINDS = (("added", _("Added")), ("gone", _("Gone")), ("changed", _("Changed")))


def shown_tab(request: HttpRequest, view: TaskView) -> dict[str, Any]:
    """The context of the template."""
    task = view.task
    given, key = request.GET.get("with", ""), request.GET.get("key", "")
    found: Compared | None = None
    problem = ""
    try:
        found = compared(task, _number(given), key)
    except CrawlframeError as error:
        problem = str(error)
    other, key = (given, key) if found is None else (found.old.pk, found.key)
    return {
        "found": found,
        "problem": problem,
        "other": other,
        "key": key,
        "parts": [] if found is None else [*_parts(found)],
        "query": "?" + urlencode({"with": other, "key": key}),
        "formats": [suffix.removeprefix(".") for suffix in export.FORMATS],
        "shown": MAX_CHANGES,
    }


def changes(request: HttpRequest, task: Task) -> Callable[[], Iterator[list[dict[str, Any]]]]:
    """All changes, whatever the size of the runs: one row for each field that differs. Raises
    BadComparison."""
    return whole(task, _number(request.GET.get("with", "")), request.GET.get("key", ""))


def _parts(found: Compared) -> Iterator[tuple[str, Any, int, list[Change]]]:
    """Each kind, its title, how many changes there are of it, and the first of them."""
    for kind, title in KINDS:
        some = [one for one in found.changes if one.kind == kind]
        yield kind, title, len(some), some[:MAX_CHANGES]


def _number(text: str) -> int | None:
    """The number that was typed; 0, which no task has, for other texts."""
    return (row_number(text) or 0) if text else None
