"""Coverage: the runs that cases are about, of which nothing else is to be reported."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from crawlservice.models import Case, CaseSpider, Event, Installation

LOOK_SPAN = timedelta(minutes=3)  # in which a leader looks at an event, trials included
# Events of which cases are made.
TELLING = (Event.Kind.FINISHED, Event.Kind.FAILED, Event.Kind.QUALITY_FAILED)


def covered(spider: str = "spider", task: str = "task") -> Q:
    """Whether a live case is about the run of a row with these columns, or a leader is about to
    look at it: its chore may fail, so this is not for long."""
    rows = CaseSpider.objects.filter(case__in=Case.objects.filter(Case.LIVE))
    rows = rows.filter(spider=OuterRef(spider), first_task__lte=OuterRef(task))
    last = Installation.objects.filter(pk=1, diagnosed__lt=OuterRef("pk"))
    new = Event.objects.filter(Exists(last), task=OuterRef(task), kind__in=TELLING)
    new = new.filter(created_at__gt=Now() - LOOK_SPAN)
    return Q(Exists(rows.filter(last_task__gte=OuterRef(task)))) | Q(Exists(new))
