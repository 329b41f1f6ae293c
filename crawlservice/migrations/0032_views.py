"""Spiders that are disabled, errors in groups, headers of pages in error, retries of many errors, and
saved views."""

from __future__ import annotations

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("crawlservice", "0031_exports"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="BulkRetry",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("spider", models.CharField(max_length=100, verbose_name="spider")),
                ("reason", models.CharField(blank=True, max_length=60, verbose_name="reason")),
                (
                    "group",
                    models.BigIntegerField(blank=True, null=True, verbose_name="group of errors"),
                ),
                ("since", models.DateTimeField(blank=True, null=True, verbose_name="since")),
                (
                    "state",
                    models.CharField(
                        choices=[("running", "running"), ("done", "done"), ("stopped", "stopped")],
                        db_index=True,
                        default="running",
                        max_length=7,
                        verbose_name="state",
                    ),
                ),
                (
                    "tasks",
                    models.JSONField(
                        default=list,
                        help_text="number and errors of each, in their order",
                        verbose_name="tasks",
                    ),
                ),
                (
                    "position",
                    models.IntegerField(
                        default=0, editable=False, help_text="how many of these tasks are done"
                    ),
                ),
                (
                    "first_page",
                    models.BigIntegerField(
                        editable=False, help_text="only newer pages are retried"
                    ),
                ),
                (
                    "last_page",
                    models.BigIntegerField(editable=False, help_text="newer pages are not retried"),
                ),
                ("all_tasks", models.IntegerField(verbose_name="tasks")),
                ("all_errors", models.BigIntegerField(verbose_name="errors")),
                ("retried_tasks", models.IntegerField(default=0, verbose_name="retried tasks")),
                (
                    "retried_errors",
                    models.BigIntegerField(default=0, verbose_name="retried errors"),
                ),
                (
                    "skipped",
                    models.JSONField(
                        default=list,
                        help_text="tasks that could not be retried, and why",
                        verbose_name="skipped",
                    ),
                ),
                ("skipped_tasks", models.IntegerField(default=0, verbose_name="skipped tasks")),
                (
                    "problem",
                    models.TextField(
                        blank=True, help_text="why it does not go on", verbose_name="problem"
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                        verbose_name="created",
                    ),
                ),
                (
                    "finished_at",
                    models.DateTimeField(blank=True, null=True, verbose_name="ended at"),
                ),
            ],
            options={
                "verbose_name": "retry of errors",
                "verbose_name_plural": "retries of errors",
                "ordering": ("-id",),
            },
        ),
        migrations.CreateModel(
            name="DisabledSpider",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("spider", models.CharField(max_length=100, unique=True, verbose_name="spider")),
                ("reason", models.CharField(max_length=500, verbose_name="reason")),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                        verbose_name="disabled at",
                    ),
                ),
            ],
            options={
                "verbose_name": "disabled spider",
                "verbose_name_plural": "disabled spiders",
                "ordering": ("spider",),
            },
        ),
        migrations.CreateModel(
            name="ErrorGroup",
            fields=[
                ("id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("spider", models.CharField(max_length=100, verbose_name="spider")),
                ("reason", models.CharField(max_length=60, verbose_name="reason")),
                (
                    "exception",
                    models.CharField(
                        blank=True,
                        help_text="its type; empty: none",
                        max_length=100,
                        verbose_name="exception",
                    ),
                ),
                (
                    "place",
                    models.CharField(
                        blank=True,
                        help_text="file and function that raised it",
                        max_length=200,
                        verbose_name="place",
                    ),
                ),
                (
                    "first_version",
                    models.CharField(
                        blank=True,
                        help_text="of the code that ran when it was first seen",
                        max_length=40,
                        verbose_name="first code version",
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                        verbose_name="first seen",
                    ),
                ),
            ],
            options={
                "verbose_name": "group of errors",
                "verbose_name_plural": "groups of errors",
                "ordering": ("spider", "reason", "id"),
            },
        ),
        migrations.CreateModel(
            name="SavedView",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=60, verbose_name="name")),
                ("query", models.CharField(blank=True, max_length=1000, verbose_name="filters")),
                (
                    "shared",
                    models.BooleanField(
                        default=False, help_text="everybody sees it", verbose_name="shared"
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                        verbose_name="created",
                    ),
                ),
            ],
            options={
                "verbose_name": "saved view",
                "verbose_name_plural": "saved views",
                "ordering": ("name", "id"),
            },
        ),
        migrations.AddField(
            model_name="page",
            name="error_group",
            field=models.BigIntegerField(
                blank=True,
                help_text="errors with the same cause",
                null=True,
                verbose_name="group of errors",
            ),
        ),
        migrations.AddField(
            model_name="page",
            name="exchange",
            field=models.JSONField(
                blank=True,
                help_text="of an error: what was sent and received, without secrets",
                null=True,
                verbose_name="headers",
            ),
        ),
        migrations.AddIndex(
            model_name="page",
            index=models.Index(
                condition=models.Q(("error_group__isnull", False)),
                fields=["error_group", "id"],
                include=("task",),
                name="page_error_group",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(fields=["spider", "outcome", "id"], name="task_spider_outcome"),
        ),
        migrations.AddField(
            model_name="bulkretry",
            name="user",
            field=models.ForeignKey(
                blank=True,
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                to=settings.AUTH_USER_MODEL,
                verbose_name="user",
            ),
        ),
        migrations.AddField(
            model_name="disabledspider",
            name="user",
            field=models.ForeignKey(
                blank=True,
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                to=settings.AUTH_USER_MODEL,
                verbose_name="user",
            ),
        ),
        migrations.AddIndex(
            model_name="errorgroup",
            index=models.Index(fields=["spider", "id"], name="error_group_spider"),
        ),
        migrations.AddField(
            model_name="savedview",
            name="user",
            field=models.ForeignKey(
                db_constraint=False,
                on_delete=django.db.models.deletion.CASCADE,
                to=settings.AUTH_USER_MODEL,
                verbose_name="user",
            ),
        ),
        migrations.AddConstraint(
            model_name="savedview",
            constraint=models.UniqueConstraint(fields=("user", "name"), name="saved_view_once"),
        ),
    ]
