"""Kept pages that are parsed again, and the items that were replaced."""

from __future__ import annotations

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("crawlservice", "0045_unchanged_pages"),
    ]

    operations = [
        migrations.AddField(
            model_name="task",
            name="reparse",
            field=models.JSONField(
                blank=True,
                editable=False,
                null=True,
                verbose_name="parses again",
            ),
        ),
        migrations.CreateModel(
            name="ParsedPage",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("rid", models.UUIDField(unique=True, verbose_name="request id")),
                ("source_task", models.BigIntegerField(verbose_name="task of the page")),
                ("source_rid", models.UUIDField(verbose_name="request that brought the page")),
                ("url", models.TextField(verbose_name="URL")),
                (
                    "old_version",
                    models.CharField(blank=True, max_length=40, verbose_name="code version before"),
                ),
                (
                    "version",
                    models.CharField(blank=True, max_length=40, verbose_name="code version"),
                ),
                ("before", models.IntegerField(verbose_name="items before")),
                ("after", models.IntegerField(verbose_name="items after")),
                ("added", models.IntegerField(verbose_name="items added")),
                ("removed", models.IntegerField(verbose_name="items removed")),
                ("changed", models.IntegerField(verbose_name="items changed")),
                (
                    "fields",
                    models.JSONField(
                        help_text="how many items differ in each", verbose_name="fields"
                    ),
                ),
                (
                    "examples",
                    models.JSONField(
                        help_text="some of the items that differ", verbose_name="examples"
                    ),
                ),
                (
                    "links",
                    models.IntegerField(
                        help_text="that its task did not know", verbose_name="new links"
                    ),
                ),
                (
                    "repaired",
                    models.BooleanField(
                        help_text="it was an error before", verbose_name="repaired"
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), verbose_name="created"
                    ),
                ),
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
                "verbose_name": "page parsed again",
                "verbose_name_plural": "pages parsed again",
                "ordering": ("-id",),
                "indexes": [
                    models.Index(fields=["task", "id"], name="parsed_page_task"),
                    models.Index(fields=["source_rid"], name="parsed_page_source"),
                ],
            },
        ),
        migrations.CreateModel(
            name="ReplacedItem",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("rid", models.UUIDField(verbose_name="request id")),
                ("ordinal", models.IntegerField(verbose_name="place on the page")),
                ("data", models.JSONField(verbose_name="data")),
                (
                    "version",
                    models.CharField(blank=True, max_length=40, verbose_name="code version"),
                ),
                ("model", models.CharField(blank=True, max_length=200, verbose_name="model")),
                ("created_at", models.DateTimeField(verbose_name="created")),
                ("replaced_by", models.BigIntegerField(verbose_name="replaced by task")),
                (
                    "replaced_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        verbose_name="replaced",
                    ),
                ),
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
                "verbose_name": "replaced item",
                "verbose_name_plural": "replaced items",
                "ordering": ("-id",),
                "indexes": [
                    models.Index(fields=["task", "id"], name="replaced_item_task"),
                    models.Index(fields=["rid", "id"], name="replaced_item_rid"),
                ],
            },
        ),
    ]
