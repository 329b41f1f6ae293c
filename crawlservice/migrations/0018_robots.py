"""The robots.txt of origins, and requests that are excluded for politeness."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models
from django.db.models import Count

EXCLUDED = ("robots", "usage", "noindex")


def count_excluded(apps: Any, editor: Any) -> None:
    """A middleware may have used one of these reasons before they had a counter of their own."""
    page, task = (
        apps.get_model("crawlservice", name).objects.using(editor.connection.alias)
        for name in ("Page", "Task")
    )
    rows = page.filter(state="error", reason__in=EXCLUDED).order_by()
    for pk, n in rows.values_list("task_id").annotate(n=Count("pk")):
        task.filter(pk=pk).update(excluded=n)


class Migration(migrations.Migration):
    dependencies = [
        ("crawlservice", "0017_seams"),
    ]

    operations = [
        migrations.AddField(
            model_name="sample",
            name="excluded",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="task",
            name="excluded",
            field=models.BigIntegerField(
                db_default=0,
                default=0,
                help_text="requests that politeness ended, as robots.txt asks; NE counts them too",
                verbose_name="excluded",
            ),
        ),
        migrations.RunPython(count_excluded, migrations.RunPython.noop),
        migrations.CreateModel(
            name="RobotsFile",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "origin",
                    models.CharField(
                        help_text="scheme, host and port",
                        max_length=300,
                        unique=True,
                        verbose_name="origin",
                    ),
                ),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("pending", "not read yet"),
                            ("rules", "rules"),
                            ("no_rules", "no rules"),
                            ("not_text", "not text"),
                            ("unreachable", "unreachable"),
                            ("given_up", "given up"),
                        ],
                        default="pending",
                        max_length=11,
                        verbose_name="state",
                    ),
                ),
                (
                    "http_status",
                    models.SmallIntegerField(blank=True, null=True, verbose_name="HTTP status"),
                ),
                ("body", models.TextField(blank=True, default="", verbose_name="text")),
                ("read_at", models.DateTimeField(blank=True, null=True, verbose_name="last read")),
                (
                    "known_until",
                    models.DateTimeField(blank=True, null=True, verbose_name="valid until"),
                ),
                (
                    "unreachable_since",
                    models.DateTimeField(blank=True, null=True, verbose_name="unreachable since"),
                ),
                (
                    "reason",
                    models.CharField(blank=True, default="", max_length=60, verbose_name="reason"),
                ),
                ("next_try", models.DateTimeField(blank=True, null=True, verbose_name="next try")),
                (
                    "lease_until",
                    models.DateTimeField(
                        blank=True,
                        help_text="a worker reads it now",
                        null=True,
                        verbose_name="being read until",
                    ),
                ),
                (
                    "crawl_delay",
                    models.FloatField(
                        default=0.0,
                        help_text="seconds that it asks for; 0: none",
                        verbose_name="Crawl-delay",
                    ),
                ),
                ("note", models.TextField(blank=True, default="", verbose_name="note")),
            ],
            options={
                "verbose_name": "robots.txt",
                "verbose_name_plural": "robots.txt",
                "ordering": ("-id",),
                "indexes": [models.Index(fields=["status", "id"], name="robots_status")],
            },
        ),
    ]
