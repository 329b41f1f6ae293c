"""The latest run of a spider with the same arguments had errors."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from crawlservice.alerts.condition import Alarm, Condition, Facts, ServiceView
from crawlservice.alerts.task_alarms import finding_of, latest_runs, name_of
from crawlservice.alerts.wording import list_of
from crawlservice.models import Severity, Task
from crawlservice.quality.outcome import QUALITY
from crawlservice.quality.reasons import in_language


def find(view: ServiceView) -> Iterator[Alarm]:
    for task in latest_runs("task_errors", Task.Outcome.FINISHED_WITH_ERRORS, view.now):
        # If only its quality failed, that is a condition of its own.
        if task.errors or not task.reason.startswith(QUALITY):
            yield finding_of("task_errors", task, view.now)


def sentence(facts: Facts) -> str:
    text = ngettext(
        "{task} finished with {n} error: {reason}",
        "{task} finished with {n} errors: {reason}",
        facts["errors"],
    )
    return text.format(
        task=name_of(facts), n=facts["errors"], reason=in_language(facts["reason"]) or "–"
    )


CONDITION = Condition(
    "task_errors",
    _("task with errors"),
    Severity.WARNING,
    find,
    sentence,
    lambda facts: list_of("page", state__exact="error", task=facts["task"]),
    urgency=30,
    rows=lambda: [Task.objects.filter(outcome=Task.Outcome.FINISHED_WITH_ERRORS)],
)
