"""The latest run of a spider with the same arguments failed."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from crawlservice.alerts.condition import Alarm, Condition, Facts, ServiceView
from crawlservice.alerts.task_alarms import finding_of, latest_runs, name_of
from crawlservice.alerts.wording import page_of
from crawlservice.models import Severity, Task
from crawlservice.quality.reasons import in_language


def find(view: ServiceView) -> Iterator[Alarm]:
    for task in latest_runs("task_failed", Task.Outcome.FAILED, view.now):
        yield finding_of("task_failed", task, view.now)


def sentence(facts: Facts) -> str:
    text = gettext("{task} failed: {reason}")
    reason = in_language(facts["reason"]) or gettext("no reason is known")
    return text.format(task=name_of(facts), reason=reason)


CONDITION = Condition(
    "task_failed",
    _("task failed"),
    Severity.SEVERE,
    find,
    sentence,
    lambda facts: page_of("task", facts["task"]),
    urgency=40,
    rows=lambda: [Task.objects.filter(outcome=Task.Outcome.FAILED)],
)
