"""How tasks ended: their outcome and why, and the same of their events. 0015_ended_tasks fills in
those of tasks that have ended."""

from __future__ import annotations

from django.db import migrations, models

OUTCOMES = [
    ("finished", "finished"),
    ("finished_with_errors", "finished with errors"),
    ("failed", "failed"),
    ("cancelled", "cancelled"),
]


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
        migrations.AddField("task", "reason", reason("why it has this outcome")),
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
    ]
