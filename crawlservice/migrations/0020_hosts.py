"""Hosts with their statistics and orders, events of hosts, and limits that are changed while a task
runs."""

from __future__ import annotations

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("crawlservice", "0019_redirects"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="event",
            name="host",
            field=models.CharField(
                blank=True, db_default="", default="", max_length=260, verbose_name="host"
            ),
        ),
        migrations.AddField(
            model_name="task",
            name="limits_unsent",
            field=models.BooleanField(
                db_default=False,
                default=False,
                editable=False,
                help_text="its limits were changed, and Redis has not received them",
            ),
        ),
        migrations.AddField(
            model_name="task",
            name="published_limits",
            field=models.JSONField(
                editable=False,
                help_text="the limits as the spider was published; null: they were not changed since",
                null=True,
            ),
        ),
        migrations.AlterField(
            model_name="event",
            name="kind",
            field=models.CharField(
                choices=[
                    ("finished", "finished"),
                    ("failed", "failed"),
                    ("cancelled", "cancelled"),
                    ("schedule_failed", "schedule failed"),
                    ("node_offline", "node offline"),
                    ("node_back", "node back"),
                    ("host_held", "host held"),
                    ("host_resumed", "host resumed"),
                ],
                max_length=20,
                verbose_name="kind",
            ),
        ),
        migrations.CreateModel(
            name="Host",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=260, unique=True, verbose_name="host")),
                (
                    "first_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        verbose_name="first seen",
                    ),
                ),
                (
                    "last_at",
                    models.DateTimeField(
                        blank=True,
                        help_text="within a few seconds",
                        null=True,
                        verbose_name="last fetch",
                    ),
                ),
                (
                    "pages",
                    models.BigIntegerField(
                        db_default=0,
                        default=0,
                        help_text="requests that ended, in errors too",
                        verbose_name="pages",
                    ),
                ),
                ("errors", models.BigIntegerField(db_default=0, default=0, verbose_name="errors")),
                (
                    "bytes",
                    models.BigIntegerField(
                        db_default=0,
                        default=0,
                        help_text="of bodies, after decompression",
                        verbose_name="bytes",
                    ),
                ),
                (
                    "statuses",
                    models.JSONField(
                        blank=True,
                        db_default=models.Value({}, models.JSONField()),
                        default=dict,
                        help_text="how often each was the answer, repeated tries included; 0: no answer",
                        verbose_name="statuses",
                    ),
                ),
                (
                    "latency_ms",
                    models.FloatField(
                        blank=True,
                        help_text="of a fetch, smoothed",
                        null=True,
                        verbose_name="latency, ms",
                    ),
                ),
                (
                    "last_status",
                    models.SmallIntegerField(
                        blank=True,
                        help_text="empty: it did not answer",
                        null=True,
                        verbose_name="last status",
                    ),
                ),
                (
                    "last_reason",
                    models.CharField(
                        blank=True,
                        db_default="",
                        default="",
                        max_length=60,
                        verbose_name="last problem",
                    ),
                ),
                (
                    "minute",
                    models.BigIntegerField(
                        db_default=0,
                        default=0,
                        editable=False,
                        help_text="of the last fetch, since the epoch",
                    ),
                ),
                (
                    "minute_fetches",
                    models.BigIntegerField(
                        db_default=0, default=0, editable=False, help_text="fetches in that minute"
                    ),
                ),
                (
                    "before_fetches",
                    models.BigIntegerField(
                        db_default=0,
                        default=0,
                        editable=False,
                        help_text="fetches in the minute before",
                    ),
                ),
                (
                    "delay",
                    models.FloatField(
                        blank=True, help_text="seconds", null=True, verbose_name="delay"
                    ),
                ),
                (
                    "concurrency",
                    models.PositiveIntegerField(blank=True, null=True, verbose_name="concurrency"),
                ),
                (
                    "paused",
                    models.BooleanField(db_default=False, default=False, verbose_name="paused"),
                ),
                (
                    "order_until",
                    models.DateTimeField(
                        blank=True,
                        help_text="empty: until it is cleared",
                        null=True,
                        verbose_name="until",
                    ),
                ),
                (
                    "note",
                    models.CharField(
                        blank=True, db_default="", default="", max_length=200, verbose_name="note"
                    ),
                ),
                (
                    "ordered_at",
                    models.DateTimeField(
                        blank=True,
                        help_text="empty: there is no order",
                        null=True,
                        verbose_name="ordered",
                    ),
                ),
                (
                    "order_number",
                    models.BigIntegerField(
                        db_default=0, default=0, editable=False, help_text="grows with each action"
                    ),
                ),
                (
                    "unsent",
                    models.CharField(
                        db_default="",
                        default="",
                        editable=False,
                        help_text="words for what Redis has not received: order, resume, robots",
                        max_length=30,
                    ),
                ),
                (
                    "held_why",
                    models.CharField(
                        blank=True,
                        db_default="",
                        default="",
                        help_text="as last seen by the leading node; empty: it is not held",
                        max_length=20,
                        verbose_name="held because",
                    ),
                ),
                (
                    "held_since",
                    models.DateTimeField(blank=True, null=True, verbose_name="held since"),
                ),
                (
                    "held_until",
                    models.DateTimeField(blank=True, null=True, verbose_name="held until"),
                ),
                (
                    "ordered_by",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        help_text="nobody: a command",
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="ordered by",
                    ),
                ),
            ],
            options={
                "verbose_name": "host",
                "verbose_name_plural": "hosts",
                "ordering": ("-id",),
                "indexes": [
                    models.Index(
                        condition=models.Q(("held_why", ""), _negated=True),
                        fields=["id"],
                        name="host_held",
                    ),
                    models.Index(
                        condition=models.Q(("paused", True)), fields=["id"], name="host_paused"
                    ),
                    models.Index(
                        condition=models.Q(("ordered_at__isnull", False)),
                        fields=["id"],
                        name="host_ordered",
                    ),
                    models.Index(
                        condition=models.Q(("unsent", ""), _negated=True),
                        fields=["id"],
                        name="host_unsent",
                    ),
                    models.Index(
                        condition=models.Q(("errors__gt", 0)), fields=["id"], name="host_errors"
                    ),
                ],
            },
        ),
    ]
