"""Labels of tasks and of schedules."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("crawlservice", "0026_starts"),
    ]

    operations = [
        migrations.AddField(
            model_name="schedule",
            name="labels",
            field=models.JSONField(
                blank=True,
                db_default={},
                default=dict,
                help_text="of its tasks",
                verbose_name="labels",
            ),
        ),
        migrations.CreateModel(
            name="Label",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=40, verbose_name="name")),
                ("value", models.CharField(max_length=100, verbose_name="value")),
                (
                    "task",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="labels",
                        to="crawlservice.task",
                        verbose_name="task",
                    ),
                ),
            ],
            options={
                "verbose_name": "label",
                "verbose_name_plural": "labels",
                "ordering": ("task", "name"),
                "indexes": [
                    models.Index(fields=["name", "value", "task"], name="label_found"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("task", "name"), name="label_once"),
                ],
            },
        ),
    ]
