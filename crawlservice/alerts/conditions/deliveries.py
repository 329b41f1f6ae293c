"""Items and events that do not arrive: failing exports, other databases and webhooks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import chain

from django.db.models import Max, Min
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from crawlservice.alerts.condition import (
    MAX_LINE,
    MAX_SUBJECTS,
    Alarm,
    Condition,
    Facts,
    ServiceView,
    Threshold,
    filled,
    first_line,
)
from crawlservice.alerts.wording import list_of, page_of
from crawlservice.databases.delivery import databases
from crawlservice.models import Delivery, Export, RowDelivery, Severity

MAX_AGE = timedelta(days=7)  # after which a delivery that was given up is history


def _exports(view: ServiceView) -> Iterator[Alarm]:
    """Exports whose target fails; paused ones are not tried."""
    rows = Export.active_ones().filter(problem_since__isnull=False)
    for export in rows.order_by("pk")[:MAX_SUBJECTS]:
        assert export.problem_since is not None
        minutes = view.minutes_since(export.problem_since)
        if minutes < view.floor("delivery"):
            continue
        problem = first_line(export.problem)
        facts = {"export": export.name, "number": export.pk, "problem": problem}
        yield Alarm(
            "delivery", f"export:{export.pk}", export.problem_since, facts, round(minutes, 1),
            spider=export.spider,
        )  # fmt: skip


def _rows(view: ServiceView) -> Iterator[Alarm]:
    """Other databases: rows of items wait for a database that fails, or were refused."""
    for name in databases():
        first = RowDelivery.objects.filter(database=name, refused=False).order_by("pk").first()
        if first is None or not first.problem:
            continue
        minutes = view.minutes_since(first.created_at)
        if minutes >= view.floor("delivery"):
            facts = {"database": name, "problem": first.problem[:MAX_LINE]}
            yield Alarm("delivery", f"rows:{name}", first.created_at, facts, round(minutes, 1))
    refused = RowDelivery.objects.filter(refused=True).order_by("pk")
    columns = ("database", "task", "problem", "tried_at", "created_at")
    for row in refused.only(*columns)[:MAX_SUBJECTS]:
        told = {"database": row.database, "refused": row.pk, "problem": row.problem[:MAX_LINE]}
        since = row.tried_at or row.created_at
        yield Alarm("delivery", f"refused:{row.pk}", since, told, task=row.task)


def _items_sentence(facts: Facts) -> str:
    if facts.get("refused"):
        text = gettext("The database {database} refuses rows of a page: {problem}")
        return text.format(database=facts["database"], problem=facts["problem"])
    if facts.get("database"):
        text = gettext("Rows for the database {database} wait: {problem}")
        return text.format(database=facts["database"], problem=facts["problem"])
    text = gettext("The target of export {export} fails: {problem}")
    return text.format(export=facts["export"], problem=facts["problem"] or "–")


def _items_link(facts: Facts) -> str:
    if facts.get("refused"):
        return page_of("rowdelivery", facts["refused"])
    if facts.get("database"):
        return list_of("rowdelivery", database=facts["database"])
    return page_of("export", facts["number"])


DELIVERY = Condition(
    "delivery",
    _("items not delivered"),
    Severity.SEVERE,
    lambda view: chain(_exports(view), _rows(view)),
    _items_sentence,
    _items_link,
    Threshold(1, _("minutes"), 0.1, 10_080),
    urgency=90,
    rows=lambda: [Export.objects.exclude(problem_since=None), RowDelivery.objects.all()],
)


def _webhooks(view: ServiceView) -> Iterator[Alarm]:
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


WEBHOOK_FAILS = Condition(
    "webhook_fails",
    _("webhook fails"),
    Severity.WARNING,
    _webhooks,
    filled(_("Webhook {webhook} does not take events: {problem}")),
    lambda facts: list_of("delivery", webhook__id__exact=facts["number"]),
    Threshold(5, _("minutes"), 0.5, 10_080),
    urgency=70,
    rows=lambda: [Delivery.objects.filter(delivered_at=None).exclude(problem="")],
)
