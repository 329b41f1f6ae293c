"""Saved files: what is in the file store, and which pages saved it."""

from __future__ import annotations

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("crawlservice", "0034_proxies"),
    ]

    operations = [
        migrations.CreateModel(
            name="StoredFile",
            fields=[
                (
                    "sha256",
                    models.CharField(
                        max_length=64, primary_key=True, serialize=False, verbose_name="SHA-256"
                    ),
                ),
                ("size", models.BigIntegerField(help_text="bytes", verbose_name="size")),
                ("media_type", models.CharField(max_length=100, verbose_name="media type")),
                ("task", models.BigIntegerField(verbose_name="task")),
                ("page", models.UUIDField(verbose_name="request id")),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        verbose_name="created",
                    ),
                ),
                (
                    "saved_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        db_index=True,
                        help_text="by the last page so far",
                        verbose_name="saved",
                    ),
                ),
            ],
            options={
                "verbose_name": "stored file",
                "verbose_name_plural": "stored files",
                "ordering": ("-saved_at",),
            },
        ),
        migrations.CreateModel(
            name="PageFile",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("rid", models.UUIDField(verbose_name="request id")),
                ("url", models.TextField(verbose_name="URL")),
                (
                    "file",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        to="crawlservice.storedfile",
                        verbose_name="stored file",
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
                "verbose_name": "file of a page",
                "verbose_name_plural": "files of pages",
                "ordering": ("id",),
                "indexes": [models.Index(fields=["task", "id"], name="page_file_task")],
                "constraints": [
                    models.UniqueConstraint(fields=("rid", "file"), name="page_file_once")
                ],
            },
        ),
    ]
