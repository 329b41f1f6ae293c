"""Alerts, their rules, targets and messages; when a leader last looked for them."""

from __future__ import annotations

import uuid

import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("crawlservice", "0029_quality"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="AlertRule",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=100, unique=True, verbose_name="name")),
                ("enabled", models.BooleanField(default=True, verbose_name="enabled")),
                (
                    "kinds",
                    models.JSONField(
                        blank=True,
                        default=list,
                        help_text="none: all of them",
                        verbose_name="conditions",
                    ),
                ),
                (
                    "thresholds",
                    models.JSONField(
                        blank=True,
                        default=dict,
                        help_text="by condition, instead of the usual ones",
                        verbose_name="thresholds",
                    ),
                ),
                (
                    "least_severity",
                    models.SmallIntegerField(
                        choices=[(1, "notice"), (2, "warning"), (3, "severe")],
                        default=2,
                        verbose_name="least severity",
                    ),
                ),
                ("spiders", models.JSONField(blank=True, default=list, verbose_name="spiders")),
                ("hosts", models.JSONField(blank=True, default=list, verbose_name="hosts")),
                ("labels", models.JSONField(blank=True, default=list, verbose_name="labels")),
                (
                    "group_minutes",
                    models.PositiveSmallIntegerField(
                        default=5,
                        help_text="after a message, further alerts of the same condition wait for this long and make one",
                        validators=[django.core.validators.MaxValueValidator(1440)],
                        verbose_name="grouping, minutes",
                    ),
                ),
                ("quiet_from", models.TimeField(blank=True, null=True, verbose_name="quiet from")),
                (
                    "quiet_until",
                    models.TimeField(
                        blank=True,
                        help_text="no messages in these hours; what is still open then is reported afterwards",
                        null=True,
                        verbose_name="quiet until",
                    ),
                ),
                (
                    "timezone",
                    models.CharField(
                        default="UTC",
                        help_text="such as Asia/Shanghai",
                        max_length=64,
                        verbose_name="time zone",
                    ),
                ),
                (
                    "severe_passes",
                    models.BooleanField(
                        default=True,
                        help_text="severe alerts are reported in quiet hours, too",
                        verbose_name="severe ones pass",
                    ),
                ),
                (
                    "repeat_hours",
                    models.PositiveSmallIntegerField(
                        default=24,
                        help_text="while an alert lasts and nobody has acknowledged it; 0: never",
                        validators=[
                            django.core.validators.MinValueValidator(0),
                            django.core.validators.MaxValueValidator(720),
                        ],
                        verbose_name="repeat, hours",
                    ),
                ),
                (
                    "reports_resolved",
                    models.BooleanField(
                        default=True,
                        help_text="also report when an alert is over",
                        verbose_name="report resolved",
                    ),
                ),
            ],
            options={
                "verbose_name": "alert rule",
                "verbose_name_plural": "alert rules",
                "ordering": ("name",),
            },
        ),
        migrations.AddField(
            model_name="installation",
            name="checked_at",
            field=models.DateTimeField(
                help_text="when a leading steward last looked for alerts", null=True
            ),
        ),
        migrations.CreateModel(
            name="Alert",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("kind", models.CharField(max_length=30, verbose_name="condition")),
                (
                    "subject",
                    models.CharField(
                        help_text="what has it; once among open alerts", max_length=300
                    ),
                ),
                (
                    "severity",
                    models.SmallIntegerField(
                        choices=[(1, "notice"), (2, "warning"), (3, "severe")],
                        verbose_name="severity",
                    ),
                ),
                ("facts", models.JSONField(default=dict, verbose_name="facts")),
                ("value", models.FloatField(blank=True, null=True, verbose_name="value")),
                (
                    "spider",
                    models.CharField(
                        blank=True, db_default="", default="", max_length=100, verbose_name="spider"
                    ),
                ),
                (
                    "host",
                    models.CharField(
                        blank=True, db_default="", default="", max_length=260, verbose_name="host"
                    ),
                ),
                ("labels", models.JSONField(blank=True, default=dict, verbose_name="labels")),
                (
                    "since",
                    models.DateTimeField(
                        help_text="when the condition began", verbose_name="since"
                    ),
                ),
                (
                    "opened_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), verbose_name="found"
                    ),
                ),
                (
                    "seen_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        verbose_name="last seen",
                    ),
                ),
                (
                    "resolved_at",
                    models.DateTimeField(blank=True, null=True, verbose_name="resolved"),
                ),
                (
                    "acknowledged_at",
                    models.DateTimeField(blank=True, null=True, verbose_name="acknowledged"),
                ),
                (
                    "silenced_until",
                    models.DateTimeField(blank=True, null=True, verbose_name="silenced until"),
                ),
                (
                    "acknowledged_by",
                    models.ForeignKey(
                        blank=True,
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="acknowledged by",
                    ),
                ),
            ],
            options={
                "verbose_name": "alert",
                "verbose_name_plural": "alerts",
                "ordering": ("-id",),
                "permissions": (("handle_alert", "Can acknowledge and silence alerts"),),
            },
        ),
        migrations.CreateModel(
            name="AlertNotice",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("reported_at", models.DateTimeField()),
                ("over", models.BooleanField(default=False)),
                (
                    "alert",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notices",
                        to="crawlservice.alert",
                    ),
                ),
                (
                    "rule",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="crawlservice.alertrule",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="AlertTarget",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=100, unique=True, verbose_name="name")),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("mail", "mail"),
                            ("service", "chat or push service"),
                            ("webhook", "webhook"),
                        ],
                        max_length=10,
                        verbose_name="kind",
                    ),
                ),
                (
                    "sealed_address",
                    models.TextField(
                        blank=True, default="", editable=False, verbose_name="address"
                    ),
                ),
                (
                    "shown",
                    models.CharField(
                        blank=True,
                        default="",
                        editable=False,
                        max_length=200,
                        verbose_name="address",
                    ),
                ),
                ("enabled", models.BooleanField(default=True, verbose_name="enabled")),
                (
                    "webhook",
                    models.ForeignKey(
                        blank=True,
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="crawlservice.webhook",
                        verbose_name="webhook",
                    ),
                ),
            ],
            options={
                "verbose_name": "alert target",
                "verbose_name_plural": "alert targets",
                "ordering": ("name",),
            },
        ),
        migrations.AddField(
            model_name="alertrule",
            name="targets",
            field=models.ManyToManyField(
                blank=True,
                related_name="rules",
                to="crawlservice.alerttarget",
                verbose_name="targets",
            ),
        ),
        migrations.CreateModel(
            name="AlertMessage",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("kind", models.CharField(max_length=30, verbose_name="condition")),
                (
                    "severity",
                    models.SmallIntegerField(
                        choices=[(1, "notice"), (2, "warning"), (3, "severe")],
                        verbose_name="severity",
                    ),
                ),
                ("title", models.CharField(max_length=200, verbose_name="title")),
                ("text", models.TextField(verbose_name="text")),
                (
                    "content",
                    models.JSONField(
                        default=dict, help_text="for programs", verbose_name="content"
                    ),
                ),
                ("key", models.UUIDField(default=uuid.uuid4, editable=False)),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), verbose_name="created"
                    ),
                ),
                ("attempts", models.SmallIntegerField(default=0, verbose_name="attempts")),
                (
                    "next_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        help_text="empty: no more attempts",
                        null=True,
                        verbose_name="next attempt",
                    ),
                ),
                ("sent_at", models.DateTimeField(blank=True, null=True, verbose_name="sent")),
                (
                    "problem",
                    models.TextField(
                        blank=True, help_text="of the last attempt", verbose_name="problem"
                    ),
                ),
                (
                    "reply",
                    models.TextField(blank=True, help_text="of the target", verbose_name="reply"),
                ),
                (
                    "rule",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        to="crawlservice.alertrule",
                        verbose_name="rule",
                    ),
                ),
                (
                    "target",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="messages",
                        to="crawlservice.alerttarget",
                        verbose_name="target",
                    ),
                ),
            ],
            options={
                "verbose_name": "alert message",
                "verbose_name_plural": "alert messages",
                "ordering": ("-id",),
            },
        ),
        migrations.AddIndex(
            model_name="alert",
            index=models.Index(fields=["resolved_at"], name="alert_resolved"),
        ),
        migrations.AddConstraint(
            model_name="alert",
            constraint=models.UniqueConstraint(
                condition=models.Q(("resolved_at__isnull", True)),
                fields=("kind", "subject"),
                name="alert_open_once",
            ),
        ),
        migrations.AddIndex(
            model_name="alertnotice",
            index=models.Index(
                condition=models.Q(("over", False)), fields=["rule"], name="alert_notice_open"
            ),
        ),
        migrations.AddConstraint(
            model_name="alertnotice",
            constraint=models.UniqueConstraint(fields=("rule", "alert"), name="alert_notice_once"),
        ),
        migrations.AddIndex(
            model_name="alertmessage",
            index=models.Index(
                condition=models.Q(("next_at__isnull", False)),
                fields=["target", "next_at"],
                name="alert_message_next",
            ),
        ),
        migrations.AddIndex(
            model_name="alertmessage",
            index=models.Index(fields=["rule", "kind", "id"], name="alert_message_rule"),
        ),
        migrations.AddIndex(
            model_name="alertmessage",
            index=models.Index(fields=["created_at"], name="alert_message_made"),
        ),
    ]
