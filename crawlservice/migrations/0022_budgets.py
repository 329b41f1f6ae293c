"""Budgets: what tasks have spent, the traps that they met, and when their time is over."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("crawlservice", "0021_identity"),
    ]

    operations = [
        migrations.AddField(
            model_name="task",
            name="deadline",
            field=models.DateTimeField(
                blank=True,
                help_text="when its time_limit is over",
                null=True,
                verbose_name="deadline",
            ),
        ),
        migrations.AddField(
            model_name="task",
            name="paused_at",
            field=models.DateTimeField(
                blank=True,
                help_text="only of tasks with a deadline",
                null=True,
                verbose_name="paused at",
            ),
        ),
        migrations.AddField(
            model_name="task",
            name="refused",
            field=models.JSONField(
                blank=True,
                help_text="links that limits refused at admission, by limit; written when it ends",
                null=True,
                verbose_name="refused links",
            ),
        ),
        migrations.AlterField(
            model_name="task",
            name="closing",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="why its spider or one of its limits closed it; empty if none did",
                max_length=200,
                verbose_name="closed because",
            ),
        ),
        migrations.CreateModel(
            name="Spent",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "host",
                    models.CharField(blank=True, default="", max_length=260, verbose_name="host"),
                ),
                ("bytes", models.BigIntegerField(verbose_name="bytes")),
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
                "verbose_name": "spent budget",
                "verbose_name_plural": "spent budgets",
                "ordering": ("task", "host"),
                "constraints": [
                    models.UniqueConstraint(fields=("task", "host"), name="spent_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="Trap",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("template", models.CharField(max_length=500, verbose_name="URLs")),
                ("pages", models.BigIntegerField(verbose_name="pages")),
                ("contents", models.BigIntegerField(verbose_name="different contents")),
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
                "verbose_name": "possible trap",
                "verbose_name_plural": "possible traps",
                "ordering": ("task", "-pages"),
                "constraints": [
                    models.UniqueConstraint(fields=("task", "template"), name="trap_once")
                ],
            },
        ),
    ]
