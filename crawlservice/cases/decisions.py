"""Decisions: people acknowledge and close cases."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from crawlframe.errors import CrawlframeError
from crawlservice.accounts.journal import record as journal
from crawlservice.connections.lookup import find
from crawlservice.models import Case


class CaseEnded(CrawlframeError):
    """The case has ended, so nothing can be decided about it."""


def live_first() -> QuerySet[Case]:
    """Live cases, open ones before acknowledged ones, the latest first."""
    rows = Case.objects.filter(Case.LIVE).select_related("acknowledged_by")
    return rows.order_by(F("acknowledged_at").asc(nulls_first=True), "-pk")


def get(number: int) -> Case:
    """Raises NotFound and django.db.Error."""
    return find(Case.objects.select_related("acknowledged_by"), "case", number)


def get_live(number: int) -> Case:
    """Raises NotFound, CaseEnded and django.db.Error."""
    case = get(number)
    if not case.is_live:
        raise CaseEnded(f"case {number} is {case.state}")
    return case


def acknowledge(numbers: Collection[int], who: Mapping[str, Any]) -> int:
    """Records that a person takes care of open cases, in the journal too. Returns how many there
    were. Raises django.db.Error."""
    user = who.get("user")
    by = user.pk if user is not None and user.is_authenticated else None
    fields = {"acknowledged_at": Now(), "acknowledged_by_id": by, "state": Case.State.ACKNOWLEDGED}
    rows = Case.objects.filter(pk__in=numbers, state=Case.State.OPEN)
    return _decide("acknowledge case", rows, fields, who)


def close(numbers: Collection[int], who: Mapping[str, Any]) -> int:
    """Ends live cases. A later bad run opens another one. Returns how many there were. Raises
    django.db.Error."""
    rows = Case.objects.filter(Case.LIVE, pk__in=numbers)
    return _decide("close case", rows, {"state": Case.State.CLOSED, "ended_at": Now()}, who)


@transaction.atomic
def _decide(
    verb: str, rows: QuerySet[Case], fields: Mapping[str, Any], who: Mapping[str, Any]
) -> int:
    found = [*rows.select_for_update(of=("self",))]
    Case.objects.filter(pk__in=[case.pk for case in found]).update(**fields)
    for case in found:
        journal(verb, **who, case=case.pk, cause=case.cause)
    return len(found)
