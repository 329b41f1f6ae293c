"""Items do not arrive: the target of an export fails, or another database does not take rows."""

from __future__ import annotations

from collections.abc import Iterator

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
    first_line,
)
from crawlservice.alerts.wording import list_of, page_of
from crawlservice.databases.delivery import databases
from crawlservice.models import Export, RowDelivery, Severity


def find(view: ServiceView) -> Iterator[Alarm]:
    yield from _exports(view)
    yield from _rows(view)


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


def sentence(facts: Facts) -> str:
    if facts.get("refused"):
        text = gettext("The database {database} refuses rows of a page: {problem}")
        return text.format(database=facts["database"], problem=facts["problem"])
    if facts.get("database"):
        text = gettext("Rows for the database {database} wait: {problem}")
        return text.format(database=facts["database"], problem=facts["problem"])
    text = gettext("The target of export {export} fails: {problem}")
    return text.format(export=facts["export"], problem=facts["problem"] or "–")


def link(facts: Facts) -> str:
    if facts.get("refused"):
        return page_of("rowdelivery", facts["refused"])
    if facts.get("database"):
        return list_of("rowdelivery", database=facts["database"])
    return page_of("export", facts["number"])


CONDITION = Condition(
    "delivery",
    _("items not delivered"),
    Severity.SEVERE,
    find,
    sentence,
    link,
    Threshold(1, _("minutes"), 0.1, 10_080),
    urgency=90,
    rows=lambda: [Export.objects.exclude(problem_since=None), RowDelivery.objects.all()],
)
