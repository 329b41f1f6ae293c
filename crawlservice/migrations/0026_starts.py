"""What starts yield is recorded in parts while they run."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models
from django.db.models.functions import Now


class Migration(migrations.Migration):
    dependencies = [
        ("crawlservice", "0025_tasklog"),
    ]

    operations = [
        migrations.CreateModel(
            name="StartPart",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.IntegerField(verbose_name="number")),
                (
                    "position",
                    models.BigIntegerField(verbose_name="requests yielded until its end"),
                ),
                (
                    "mark",
                    models.BinaryField(help_text="identifies the last of these requests"),
                ),
                ("duplicates", models.BigIntegerField(verbose_name="duplicates")),
                ("follow_ups", models.BinaryField(help_text="msgpack list of admissions")),
                ("created_at", models.DateTimeField(db_default=Now(), verbose_name="created")),
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
                "verbose_name": "part of a start",
                "verbose_name_plural": "parts of starts",
                "ordering": ("task", "number"),
                "constraints": [
                    models.UniqueConstraint(fields=("task", "number"), name="start_part_once")
                ],
            },
        ),
    ]
