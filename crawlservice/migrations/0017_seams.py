"""Stats of spiders, tasks that end with a last request or that their spider closes, and how far the
outbox was sent as signals."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("crawlservice", "0016_key_check"),
    ]

    operations = [
        migrations.AddField(
            model_name="installation",
            name="signalled",
            field=models.BigIntegerField(
                help_text="last event that was sent as a signal", null=True
            ),
        ),
        migrations.AddField(
            model_name="page",
            name="stats",
            field=models.JSONField(
                blank=True,
                help_text="what the spider counted on this page",
                null=True,
                verbose_name="stats",
            ),
        ),
        migrations.AddField(
            model_name="task",
            name="closing",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="why its spider closed it; empty if it did not",
                max_length=200,
                verbose_name="closed because",
            ),
        ),
        migrations.AddField(
            model_name="task",
            name="ends",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="its last request runs the spider's closed()",
                verbose_name="ends",
            ),
        ),
        migrations.CreateModel(
            name="Stat",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[("counter", "counter"), ("maximum", "maximum")],
                        max_length=7,
                        verbose_name="kind",
                    ),
                ),
                ("name", models.CharField(max_length=100, verbose_name="name")),
                ("value", models.FloatField(verbose_name="value")),
                (
                    "task",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="crawlservice.task",
                        verbose_name="task",
                    ),
                ),
            ],
            options={
                "verbose_name": "stat",
                "verbose_name_plural": "stats",
                "ordering": ("task", "kind", "name"),
                "constraints": [
                    models.UniqueConstraint(fields=("task", "kind", "name"), name="stat_once")
                ],
            },
        ),
    ]
