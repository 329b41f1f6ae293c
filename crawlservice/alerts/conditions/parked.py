"""Requests of a running task are parked, because no running code can take them."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from crawlservice.alerts.condition import Alarm, Condition, Facts, ServiceView, Unknown
from crawlservice.alerts.task_alarms import name_of, running_finding, uncounted
from crawlservice.alerts.wording import page_of
from crawlservice.models import Severity


def find(view: ServiceView) -> Iterator[Alarm | Unknown]:
    for task in view.tasks:
        if task.counts is not None and task.counts.parked > 0:
            yield running_finding("parked", task, view.now, requests=task.counts.parked)
    yield from uncounted(view)


def sentence(facts: Facts) -> str:
    text = ngettext(
        "{task}: {n} request is parked, because no running code can take it.",
        "{task}: {n} requests are parked, because no running code can take them.",
        facts["requests"],
    )
    return text.format(task=name_of(facts), n=facts["requests"])


CONDITION = Condition(
    "parked",
    _("requests parked"),
    Severity.WARNING,
    find,
    sentence,
    lambda facts: page_of("task", facts["task"]),
    urgency=50,
)
