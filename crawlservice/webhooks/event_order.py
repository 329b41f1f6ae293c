"""Events in the order of their numbers, each once, although transactions may be committed in
another order."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import BooleanField, ExpressionWrapper, Max, Q
from django.db.models.functions import Now

from crawlservice.models import Event

GAP_TIMEOUT = timedelta(seconds=3)  # a number missing for so long does not come any more
EVENTS_PER_READ = 500


def newest() -> int:
    """The number of the latest event."""
    number: int = Event.objects.aggregate(pk=Max("pk"))["pk"] or 0
    return number


def after(last: int) -> list[Event]:
    """The next events after number ``last``, with their tasks and schedules.

    Events after a missing number wait for it a while: its transaction may still be open."""
    rows = Event.objects.filter(pk__gt=last).select_related("task", "schedule").order_by("pk")
    # By the clock of the database, which set their times.
    old = ExpressionWrapper(Q(created_at__lt=Now() - GAP_TIMEOUT), output_field=BooleanField())
    rows = rows.annotate(old=old).defer("task__seeds", "task__arguments", "task__settings")
    found: list[Event] = []
    for event in rows[:EVENTS_PER_READ]:
        if event.pk != last + 1 and not event.old:
            break
        found.append(event)
        last = event.pk
    return found
