"""How tasks ended: their outcome and why, and the same of their events. Tasks that have ended get
theirs from their numbers."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

from django.db import migrations, models
from django.db.models import Case, F, Q, Value, When

HASHED = 100_000  # tasks, at most
BATCH = 500
OUTCOMES = [
    ("finished", "finished"),
    ("finished_with_errors", "finished with errors"),
    ("failed", "failed"),
    ("cancelled", "cancelled"),
]


def decide(apps: Any, schema_editor: Any) -> None:
    """As events told it until now, and by the default share: failed when the start did, when
    nothing but the start was fetched, or when more than half of the pages ended in error."""
    database = schema_editor.connection.alias
    ended = apps.get_model("crawlservice", "Task").objects.using(database)
    failed = Q(ne__gt=0) & (Q(nf__lte=1, items=0) | Q(ne__gt=(F("na") - 1) / 2.0))
    ended.filter(state__in=("finished", "cancelled")).update(
        outcome=Case(
            When(state="cancelled", then=Value("cancelled")),
            When(failed, then=Value("failed")),
            When(ne__gt=0, then=Value("finished_with_errors")),
            default=Value("finished"),
        )
    )
    apps.get_model("crawlservice", "Event").objects.using(database).update(outcome=F("kind"))


def hash_arguments(apps: Any, schema_editor: Any) -> None:
    """Of the latest tasks, so that the next ones are compared with them."""
    database = schema_editor.connection.alias
    tasks = apps.get_model("crawlservice", "Task").objects.using(database)
    numbers = [*tasks.order_by("-pk").values_list("pk", flat=True)[:HASHED]]
    for start in range(0, len(numbers), BATCH):
        found = tasks.filter(pk__in=numbers[start : start + BATCH])
        rows = [*found.only("spider", "arguments")]
        for task in rows:
            task.arguments_hash = arguments_hash(task.spider, task.arguments)
        tasks.bulk_update(rows, ["arguments_hash"])


def arguments_hash(spider: str, arguments: dict[str, Any]) -> int:
    """As crawlservice/outcomes.py had it when this was written."""
    text = json.dumps([spider, arguments], sort_keys=True)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), signed=True)


def outcome(help_text: str) -> models.CharField[str, str]:
    return models.CharField(
        "outcome",
        blank=True,
        choices=OUTCOMES,
        db_default="",
        default="",
        help_text=help_text,
        max_length=20,
    )


def reason(help_text: str = "") -> models.CharField[str, str]:
    return models.CharField(
        "reason", blank=True, db_default="", default="", help_text=help_text, max_length=200
    )


class Migration(migrations.Migration):
    dependencies = [("crawlservice", "0010_installation")]
    operations = [
        migrations.AddField("task", "outcome", outcome("how it ended; empty while it has not")),
        migrations.AddField("task", "reason", reason("why it ended so")),
        migrations.AddField(
            "task",
            "arguments_hash",
            models.BigIntegerField("hash of the arguments", editable=False, null=True),
        ),
        migrations.AddField(
            "task",
            "previous_na",
            models.BigIntegerField(
                "requests of the last run",
                blank=True,
                help_text="that finished with the same arguments before this one was submitted",
                null=True,
            ),
        ),
        migrations.AddField("event", "outcome", outcome("of the task when this happened")),
        migrations.AddField("event", "reason", reason()),
        migrations.AddIndex("task", models.Index(fields=["outcome", "id"], name="task_outcome")),
        migrations.AddIndex(
            "task", models.Index(fields=["arguments_hash", "id"], name="task_arguments")
        ),
        migrations.RunPython(decide, migrations.RunPython.noop),
        migrations.RunPython(hash_arguments, migrations.RunPython.noop),
    ]
