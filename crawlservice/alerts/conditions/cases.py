"""Cases that are open: causes of bad runs."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext_lazy as _

from crawlservice.alerts.condition import MAX_SUBJECTS, Alarm, Condition, Facts, ServiceView
from crawlservice.alerts.wording import page_of
from crawlservice.cases import wording
from crawlservice.models import Case, Severity


def find(view: ServiceView) -> Iterator[Alarm]:
    """Finds live cases. One that a person has acknowledged is not reported."""
    rows = Case.objects.filter(Case.LIVE).prefetch_related("spiders").order_by("-pk")
    for case in rows[: MAX_SUBJECTS + 1]:
        facts = {"case": case.pk, **wording.facts_of(case)}
        yield Alarm(
            "case",
            str(case.pk),
            case.since,
            facts,
            spider=next(iter(facts["spiders"]), ""),
            host=case.host,
            acknowledged_at=case.acknowledged_at,
        )


def _page(facts: Facts) -> str:
    return page_of("case", facts["case"])


CASE = Condition(
    "case",
    _("case"),
    Severity.SEVERE,
    find,
    wording.sentence,
    _page,
    urgency=35,
    rows=lambda: [Case.objects.filter(Case.LIVE)],
)
