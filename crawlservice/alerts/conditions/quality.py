"""The items of the latest run with the same arguments are not as they should be, and no case is
about it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import groupby
from operator import attrgetter

from django.db.models import Max
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from crawlservice.alerts.condition import MAX_SUBJECTS, Alarm, Condition, Facts, ServiceView
from crawlservice.alerts.conditions.tasks import name_of, page_of_task
from crawlservice.models import Finding as QualityFinding
from crawlservice.models import Severity
from crawlservice.quality.deviation import open_findings
from crawlservice.quality.wording import sentence_of

MAX_AGE = timedelta(days=7)  # after which a finding is history
MAX_NAMED = 3  # findings of a task that its sentence names
COLUMNS = ("monitor", "field", "subject", "unit", "low", "high", "usual", "seen")


def find(view: ServiceView) -> Iterator[Alarm]:
    """Finds runs with findings, until these are accepted or a later run is good."""
    rows = open_findings().filter(created_at__gt=view.now - MAX_AGE)
    runs = rows.order_by().values("spider", "task__arguments_hash").annotate(latest=Max("task"))
    latest = runs.order_by("-latest").values_list("latest", flat=True)[: MAX_SUBJECTS + 1]
    rows = rows.filter(task__in=[*latest]).order_by("-task", "source", "pk").defer("examples")
    for task, group in groupby(rows, key=attrgetter("task")):
        found = [*group]
        subject = f"{task.spider}:{task.arguments_hash}" if task.arguments_hash else str(task)
        facts = {
            "spider": task.spider,
            "task": task.pk,
            "found": [{name: getattr(one, name) for name in COLUMNS} for one in found[:MAX_NAMED]],
            "more": len(found[MAX_NAMED:]),
        }
        since = min(one.since or one.created_at for one in found)
        yield Alarm("quality", subject, since, facts, spider=task.spider, task=task.pk)


def sentence(facts: Facts) -> str:
    found = [sentence_of(QualityFinding(**one)) for one in facts["found"]]
    if facts["more"]:
        found.append(gettext("and {more} more").format(more=facts["more"]))
    return gettext("{task}: its items are not as they should be: {found}").format(
        task=name_of(facts), found=" · ".join(found)
    )


QUALITY = Condition(
    "quality",
    _("quality of items"),
    Severity.SEVERE,
    find,
    sentence,
    page_of_task,
    urgency=50,
    rows=lambda: [QualityFinding.objects.filter(accepted_at=None)],
)
