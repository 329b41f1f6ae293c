"""Chores of cases: they are made of events of tasks, and ended."""

from __future__ import annotations

from django.db.models import QuerySet
from django.db.models.functions import Coalesce

from crawlservice.cases.events import TELLING
from crawlservice.chores.chore import Chore, ChoreContext, Ticks
from crawlservice.ledger.commit_order import CommitOrder
from crawlservice.models import Case, Event, Installation


def _watch(steward: ChoreContext) -> Ticks:
    from crawlservice.cases.trial import TrialProcess
    from crawlservice.cases.watch import CaseWatch  # with parsers of pages

    return CaseWatch(CommitOrder(Event).settled, TrialProcess, steward.still_here)


def _new_events() -> QuerySet[Event]:
    """Events of which no cases were made."""
    last = Installation.objects.filter(pk=1).annotate(last=Coalesce("diagnosed", 0))
    return Event.objects.filter(kind__in=TELLING, pk__gt=last.values("last")[:1])


CHORES = (
    Chore(
        "cases",
        _watch,
        each_term=True,
        used=lambda: [_new_events(), Case.objects.filter(Case.LIVE)],
    ),
)
