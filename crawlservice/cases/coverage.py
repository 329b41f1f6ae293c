"""Coverage: the runs that cases are about, of which nothing else is to be reported."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, Q

from crawlservice.models import Case, CaseSpider, Event, Installation

# Events of which cases are made.
TELLING = (Event.Kind.FINISHED, Event.Kind.FAILED, Event.Kind.QUALITY_FAILED)


def covered(spider: str = "spider", task: str = "task") -> Q:
    """Whether a live case is about the run of a row with these columns, or a leader is still to
    look at it."""
    rows = CaseSpider.objects.filter(case__in=Case.objects.filter(Case.LIVE))
    rows = rows.filter(spider=OuterRef(spider), first_task__lte=OuterRef(task))
    last = Installation.objects.filter(pk=1, diagnosed__lt=OuterRef("pk"))
    new = Event.objects.filter(Exists(last), task=OuterRef(task), kind__in=TELLING)
    return Q(Exists(rows.filter(last_task__gte=OuterRef(task)))) | Q(Exists(new))
