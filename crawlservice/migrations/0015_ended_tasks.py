"""Tasks that have ended get an outcome, the hash of their arguments and the number of their
cancelled requests; webhooks for all kinds keep getting the kinds that existed.

In batches, each in a transaction of its own, so that the tables stay usable. If interrupted,
running it again continues."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

from django.db import migrations
from django.db.models import Case, Count, F, Max, Q, QuerySet, Value, When

HASHED = 100_000  # tasks, at most
BATCH = 500  # tasks, or events
KINDS = ["finished", "failed", "cancelled"]  # of events, before 0010_installation
ENDED = ("finished", "cancelled")


def decide(apps: Any, schema_editor: Any) -> None:
    """From their events, and by the default share: failed if the start did, if nothing but the
    start was fetched, or if more than half of the pages ended in error."""
    pages = F("na") - 1 - F("cancelled")
    failed = Q(errors__gt=0) & (Q(nf__lte=1, items=0) | Q(errors__gt=pages / 2.0))
    outcome = Case(
        When(state="cancelled", then=Value("cancelled")),
        When(failed, then=Value("failed")),
        When(errors__gt=0, then=Value("finished_with_errors")),
        default=Value("finished"),
    )
    for tasks in _batches(_rows(apps, schema_editor, "Task")):
        ended = tasks.filter(state__in=ENDED, outcome="")
        ended.alias(errors=F("ne") - F("cancelled")).update(outcome=outcome)
    for events in _batches(_rows(apps, schema_editor, "Event")):
        events.filter(kind__in=KINDS, outcome="").update(outcome=F("kind"))


def hash_arguments(apps: Any, schema_editor: Any) -> None:
    """Only for the latest tasks, so that the next ones are compared with them."""
    tasks = _rows(apps, schema_editor, "Task")
    for some in _batches(tasks, (tasks.aggregate(n=Max("pk"))["n"] or 0) - HASHED):
        rows = [*some.filter(arguments_hash=None).only("spider", "arguments")]
        for task in rows:
            task.arguments_hash = arguments_hash(task.spider, task.arguments)
        tasks.bulk_update(rows, ["arguments_hash"])


def arguments_hash(spider: str, arguments: dict[str, Any]) -> int:
    """As crawlservice/tasks/outcomes.py had it when this was written."""
    text = json.dumps([spider, arguments], sort_keys=True)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), signed=True)


def count_cancelled(apps: Any, schema_editor: Any) -> None:
    """Only for tasks that have ended; Redis counts those of running tasks. A cancelled task of
    which only some requests were run again has finished, but has such rows too."""
    tasks, pages = (_rows(apps, schema_editor, name) for name in ("Task", "Page"))
    for some in _batches(tasks):
        lacking = some.filter(state__in=ENDED, cancelled=0, ne__gt=0)
        for pk in [*lacking.values_list("pk", flat=True)]:
            of_task = pages.filter(task=pk, state="error", reason="cancelled")
            n = of_task.order_by().aggregate(n=Count("pk"))["n"]
            # Until it is run again.
            tasks.filter(pk=pk, state__in=ENDED, cancelled=0).update(cancelled=n)


def keep_kinds(apps: Any, schema_editor: Any) -> None:
    """Receivers only know events with a task; an empty list would include the new kinds."""
    for webhook in _rows(apps, schema_editor, "Webhook"):
        if not webhook.kinds:
            webhook.kinds = KINDS
            webhook.save(update_fields=["kinds"])


def _rows(apps: Any, schema_editor: Any, model: str) -> QuerySet[Any]:
    rows: QuerySet[Any] = apps.get_model("crawlservice", model).objects.all()
    return rows.using(schema_editor.connection.alias)


def _batches(rows: QuerySet[Any], after: int = 0) -> Iterator[QuerySet[Any]]:
    """The rows with numbers above ``after``, BATCH at a time."""
    numbers = rows.order_by("pk").values_list("pk", flat=True)
    while some := [*numbers.filter(pk__gt=after)[:BATCH]]:
        yield rows.filter(pk__gt=after, pk__lte=some[-1])
        after = some[-1]


def _step(how: Any) -> migrations.RunPython:
    return migrations.RunPython(how, migrations.RunPython.noop, atomic=False)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("crawlservice", "0014_webhook_secret")]
    # How a task ended depends on how many of its requests were cancelled.
    operations = [_step(count_cancelled), _step(decide), _step(hash_arguments), _step(keep_kinds)]
