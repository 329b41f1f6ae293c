"""The latest start of a schedule was missed, because no node was running."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.db.models import Exists, OuterRef
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from crawlservice.alerts.condition import MAX_SUBJECTS, Alarm, Condition, Facts, ServiceView
from crawlservice.alerts.wording import page_of
from crawlservice.models import Run, Severity

MAX_AGE = timedelta(days=2)  # after which a missed start is history


def find(view: ServiceView) -> Iterator[Alarm]:
    later = Run.objects.filter(schedule=OuterRef("schedule"), due_at__gt=OuterRef("due_at"))
    rows = Run.objects.filter(
        ~Exists(later),
        outcome=Run.Outcome.MISSED,
        due_at__gt=view.now - MAX_AGE,
        schedule__enabled=True,
    )
    rows = rows.select_related("schedule").order_by("schedule", "due_at")
    for run in rows[: MAX_SUBJECTS + 1]:
        one = run.schedule
        facts = {
            "schedule": one.name, "number": one.pk, "spider": one.spider,
            "due": run.due_at.isoformat(),
        }  # fmt: skip
        yield Alarm("schedule_missed", str(one.pk), run.due_at, facts, spider=one.spider)


def sentence(facts: Facts) -> str:
    text = gettext("Schedule {schedule} missed its start, because no node was running.")
    return text.format(schedule=facts["schedule"])


CONDITION = Condition(
    "schedule_missed",
    _("start missed"),
    Severity.WARNING,
    find,
    sentence,
    lambda facts: page_of("schedule", facts["number"]),
    urgency=10,
    rows=lambda: [Run.objects.filter(outcome=Run.Outcome.MISSED)],
)
