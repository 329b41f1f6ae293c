"""Settings and logs of single tasks."""

from __future__ import annotations

from django.db import migrations, models
from django.db.models.deletion import CASCADE


class Migration(migrations.Migration):
    dependencies = [
        ("crawlservice", "0024_recipes"),
    ]

    operations = [
        migrations.AddField(
            model_name="task",
            name="overrides",
            field=models.JSONField(
                blank=True,
                db_default={},
                default=dict,
                help_text="settings that it has instead of those of its spider",
                verbose_name="settings",
            ),
        ),
        migrations.AddField(
            model_name="schedule",
            name="overrides",
            field=models.JSONField(
                blank=True,
                db_default={},
                default=dict,
                help_text="settings that its tasks have instead of those of the spider",
                verbose_name="settings",
            ),
        ),
        migrations.CreateModel(
            name="LogLine",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField(verbose_name="time")),
                (
                    "level",
                    models.SmallIntegerField(
                        help_text="10 debug, 20 info, 30 warning, …", verbose_name="level"
                    ),
                ),
                ("logger", models.CharField(max_length=100, verbose_name="logger")),
                ("rid", models.UUIDField(blank=True, null=True, verbose_name="request")),
                ("url", models.TextField(blank=True, default="", verbose_name="URL")),
                ("text", models.TextField(verbose_name="text")),
                (
                    "task",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=CASCADE,
                        to="crawlservice.task",
                        verbose_name="task",
                    ),
                ),
            ],
            options={
                "verbose_name": "log line",
                "verbose_name_plural": "log lines",
                "ordering": ("task", "id"),
                "indexes": [models.Index(fields=["task", "id"], name="logline_task")],
            },
        ),
        migrations.CreateModel(
            name="TaskLog",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("lines", models.BigIntegerField(verbose_name="lines")),
                ("size", models.BigIntegerField(verbose_name="bytes")),
                ("dropped", models.BigIntegerField(verbose_name="dropped lines")),
                (
                    "task",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=CASCADE,
                        to="crawlservice.task",
                        verbose_name="task",
                    ),
                ),
            ],
            options={
                "verbose_name": "log of a task",
                "verbose_name_plural": "logs of tasks",
                "ordering": ("task",),
                "constraints": [models.UniqueConstraint(fields=("task",), name="tasklog_once")],
            },
        ),
    ]
