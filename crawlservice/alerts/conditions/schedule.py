"""An enabled schedule cannot start."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from crawlservice.alerts.condition import (
    MAX_SUBJECTS,
    Alarm,
    Condition,
    Facts,
    ServiceView,
    first_line,
)
from crawlservice.alerts.wording import page_of
from crawlservice.models import Schedule, Severity


def find(view: ServiceView) -> Iterator[Alarm]:
    rows = Schedule.objects.filter(enabled=True).exclude(problem="").order_by("pk")
    for one in rows.defer("arguments")[: MAX_SUBJECTS + 1]:
        since = one.problem_since or view.now
        facts = {
            "schedule": one.name, "number": one.pk, "spider": one.spider,
            "problem": first_line(one.problem),
        }  # fmt: skip
        yield Alarm("schedule", str(one.pk), since, facts, spider=one.spider)


def sentence(facts: Facts) -> str:
    text = gettext("Schedule {schedule} cannot start: {problem}")
    return text.format(schedule=facts["schedule"], problem=facts["problem"])


CONDITION = Condition(
    "schedule",
    _("schedule cannot start"),
    Severity.SEVERE,
    find,
    sentence,
    lambda facts: page_of("schedule", facts["number"]),
    urgency=70,
    rows=lambda: [Schedule.objects.exclude(problem="")],
)
