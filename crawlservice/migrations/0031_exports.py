"""Continuous exports."""

from __future__ import annotations

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("crawlservice", "0030_alerts"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ExportFile",
            fields=[
                ("id", models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("node", models.CharField(max_length=100, verbose_name="node")),
                ("path", models.TextField(verbose_name="path")),
                ("problems", models.JSONField(default=list, verbose_name="problems")),
                (
                    "read_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), verbose_name="read"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Export",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=60, unique=True, verbose_name="name")),
                (
                    "what",
                    models.CharField(
                        choices=[("items", "items"), ("pages", "pages")],
                        default="items",
                        max_length=5,
                        verbose_name="what",
                    ),
                ),
                (
                    "spider",
                    models.CharField(
                        blank=True,
                        default="",
                        help_text="only of this spider; empty: of all",
                        max_length=100,
                        verbose_name="spider",
                    ),
                ),
                (
                    "task",
                    models.BigIntegerField(
                        blank=True,
                        help_text="only of this task; empty: of all",
                        null=True,
                        verbose_name="task",
                    ),
                ),
                (
                    "labels",
                    models.JSONField(
                        blank=True,
                        default=dict,
                        help_text="only of tasks that have all of them",
                        verbose_name="labels",
                    ),
                ),
                (
                    "usage",
                    models.CharField(
                        blank=True,
                        default="",
                        help_text="only of pages whose usage signals match, such as ai-train!=no",
                        max_length=200,
                        verbose_name="usage",
                    ),
                ),
                (
                    "fields",
                    models.JSONField(
                        blank=True,
                        default=list,
                        help_text="only these fields; empty: all",
                        verbose_name="fields",
                    ),
                ),
                ("target", models.JSONField(verbose_name="target")),
                (
                    "sealed",
                    models.TextField(
                        blank=True, default="", editable=False, verbose_name="secrets"
                    ),
                ),
                (
                    "from_file",
                    models.BooleanField(
                        default=False,
                        help_text="defined in exports.toml of the spiders",
                        verbose_name="from a file",
                    ),
                ),
                (
                    "listed",
                    models.BooleanField(
                        default=True,
                        help_text="the file that defines it still names it",
                        verbose_name="listed",
                    ),
                ),
                ("paused", models.BooleanField(default=False, verbose_name="paused")),
                (
                    "changed",
                    models.PositiveIntegerField(
                        default=0, help_text="counts changes of the definition"
                    ),
                ),
                (
                    "run",
                    models.PositiveIntegerField(
                        default=1,
                        help_text="counts how often it was started again",
                        verbose_name="run",
                    ),
                ),
                (
                    "since",
                    models.DateTimeField(
                        blank=True,
                        help_text="only what was stored from then on",
                        null=True,
                        verbose_name="since",
                    ),
                ),
                (
                    "position",
                    models.BigIntegerField(
                        default=0,
                        help_text="number of the last row that was exported",
                        verbose_name="position",
                    ),
                ),
                (
                    "planned",
                    models.BigIntegerField(
                        blank=True,
                        help_text="last row of the batch being sent",
                        null=True,
                        verbose_name="planned",
                    ),
                ),
                (
                    "columns",
                    models.JSONField(
                        blank=True,
                        default=list,
                        help_text="name and kind of each, in order",
                        verbose_name="columns",
                    ),
                ),
                (
                    "rows",
                    models.BigIntegerField(
                        default=0, help_text="rows in all", verbose_name="exported"
                    ),
                ),
                ("batches", models.BigIntegerField(default=0, verbose_name="batches")),
                ("last_batch", models.TextField(blank=True, default="", verbose_name="last batch")),
                ("last_at", models.DateTimeField(blank=True, null=True, verbose_name="last sent")),
                (
                    "attempts",
                    models.PositiveIntegerField(
                        default=0,
                        help_text="since the last one that succeeded",
                        verbose_name="failed attempts",
                    ),
                ),
                (
                    "next_at",
                    models.DateTimeField(blank=True, null=True, verbose_name="next attempt"),
                ),
                ("problem", models.TextField(blank=True, default="", verbose_name="problem")),
                (
                    "problem_since",
                    models.DateTimeField(blank=True, null=True, verbose_name="since"),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), verbose_name="created"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="user",
                    ),
                ),
            ],
            options={
                "verbose_name": "export",
                "verbose_name_plural": "exports",
                "ordering": ("name",),
            },
        ),
    ]
