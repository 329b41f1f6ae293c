"""Kept pages: what sites sent, and where the bodies are."""

from __future__ import annotations

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("crawlservice", "0041_webhook_query"),
    ]

    operations = [
        migrations.CreateModel(
            name="PageDictionary",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("host", models.CharField(db_index=True, max_length=300, verbose_name="host")),
                ("content", models.BinaryField(help_text="a dictionary of Zstandard")),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), verbose_name="created"
                    ),
                ),
            ],
            options={
                "verbose_name": "dictionary of pages",
                "verbose_name_plural": "dictionaries of pages",
                "ordering": ("-id",),
            },
        ),
        migrations.CreateModel(
            name="PageSegment",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=200, unique=True, verbose_name="name")),
                ("node", models.CharField(max_length=300, verbose_name="node")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("open", "open"),
                            ("finished", "finished"),
                            ("uploaded", "uploaded"),
                        ],
                        default="open",
                        max_length=8,
                        verbose_name="state",
                    ),
                ),
                ("size", models.BigIntegerField(default=0, help_text="bytes", verbose_name="size")),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), verbose_name="created"
                    ),
                ),
            ],
            options={
                "verbose_name": "segment of pages",
                "verbose_name_plural": "segments of pages",
                "ordering": ("-id",),
            },
        ),
        migrations.CreateModel(
            name="PageBody",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "digest",
                    models.BinaryField(help_text="BLAKE2b, 32 bytes", max_length=32, unique=True),
                ),
                (
                    "size",
                    models.BigIntegerField(
                        help_text="bytes of the body after decompression", verbose_name="size"
                    ),
                ),
                ("data", models.BinaryField(null=True)),
                (
                    "stored",
                    models.BigIntegerField(help_text="bytes that it takes", verbose_name="stored"),
                ),
                (
                    "offset",
                    models.BigIntegerField(help_text="of its record in the segment", null=True),
                ),
                ("length", models.BigIntegerField(help_text="bytes of its record", null=True)),
                (
                    "used_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        db_index=True,
                        verbose_name="used",
                    ),
                ),
                (
                    "dictionary",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        to="crawlservice.pagedictionary",
                        verbose_name="dictionary of pages",
                    ),
                ),
                (
                    "segment",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        to="crawlservice.pagesegment",
                        verbose_name="segment of pages",
                    ),
                ),
            ],
            options={
                "verbose_name": "body of pages",
                "verbose_name_plural": "bodies of pages",
                "ordering": ("-id",),
            },
        ),
        migrations.CreateModel(
            name="KeptPage",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("rid", models.UUIDField(unique=True, verbose_name="request id")),
                ("url", models.TextField(help_text="after redirects", verbose_name="URL")),
                ("host", models.CharField(max_length=300, verbose_name="host")),
                ("method", models.CharField(max_length=20, verbose_name="method")),
                ("status", models.SmallIntegerField(verbose_name="HTTP status")),
                (
                    "reason",
                    models.CharField(
                        blank=True,
                        help_text="why it is kept; empty: it is done",
                        max_length=60,
                        verbose_name="reason",
                    ),
                ),
                (
                    "headers",
                    models.JSONField(
                        help_text="sent and received, without secrets", verbose_name="headers"
                    ),
                ),
                ("address", models.CharField(blank=True, max_length=45, verbose_name="IP address")),
                (
                    "key",
                    models.BinaryField(
                        help_text="what its request is found by", max_length=16, null=True
                    ),
                ),
                ("etag", models.TextField(blank=True)),
                (
                    "modified",
                    models.CharField(blank=True, help_text="Last-Modified", max_length=100),
                ),
                ("record", models.BinaryField(help_text="record of its request")),
                (
                    "fetched_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        db_index=True,
                        verbose_name="fetched",
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
                (
                    "body",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        to="crawlservice.pagebody",
                        verbose_name="body of pages",
                    ),
                ),
            ],
            options={
                "verbose_name": "kept page",
                "verbose_name_plural": "kept pages",
                "ordering": ("-id",),
                "indexes": [
                    models.Index(fields=["task", "id"], name="kept_page_task"),
                    models.Index(
                        condition=models.Q(("reason", ""), _negated=True),
                        fields=["task", "reason", "id"],
                        name="kept_page_reason",
                    ),
                    models.Index(
                        condition=models.Q(("key__isnull", False)),
                        fields=["key", "fetched_at"],
                        name="kept_page_key",
                    ),
                ],
            },
        ),
    ]
