"""A webhook that does not accept its messages."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.db.models import Max, Min
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from crawlservice.alerts.condition import (
    MAX_SUBJECTS,
    Alarm,
    Condition,
    Facts,
    ServiceView,
    Threshold,
    first_line,
)
from crawlservice.alerts.wording import list_of
from crawlservice.models import Delivery, Severity

MAX_AGE = timedelta(days=7)  # after which a delivery that was given up is history


def find(view: ServiceView) -> Iterator[Alarm]:
    """Finds webhooks with deliveries that failed, until a later one arrives."""
    failed = Delivery.objects.filter(delivered_at=None, webhook__enabled=True).exclude(problem="")
    failed = failed.filter(event__created_at__gt=view.now - MAX_AGE).order_by()
    ends = failed.values("webhook").annotate(latest=Max("pk"), since=Min("event__created_at"))
    for row in ends.order_by("webhook")[: MAX_SUBJECTS + 1]:
        webhook, latest = row["webhook"], row["latest"]
        minutes = view.minutes_since(row["since"])
        later = Delivery.objects.filter(webhook=webhook, pk__gt=latest, delivered_at__isnull=False)
        if minutes < view.floor("webhook_fails") or later.exists():
            continue
        last = failed.filter(pk=latest).values_list("webhook__name", "problem").first()
        if last is None:  # it has just arrived
            continue
        facts = {"webhook": last[0], "number": webhook, "problem": first_line(last[1])}
        yield Alarm("webhook_fails", str(webhook), row["since"], facts, round(minutes, 1))


def sentence(facts: Facts) -> str:
    text = gettext("Webhook {webhook} does not take events: {problem}")
    return text.format(webhook=facts["webhook"], problem=facts["problem"])


CONDITION = Condition(
    "webhook_fails",
    _("webhook fails"),
    Severity.WARNING,
    find,
    sentence,
    lambda facts: list_of("delivery", webhook__id__exact=facts["number"]),
    Threshold(5, _("minutes"), 0.5, 10_080),
    urgency=70,
    rows=lambda: [Delivery.objects.filter(delivered_at=None).exclude(problem="")],
)
