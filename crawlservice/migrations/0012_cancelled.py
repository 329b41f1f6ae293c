"""Cancelled requests are counted apart from errors, and a cancelled task may have rows that are
still to be written. 0015_ended_tasks counts those of tasks that have ended."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("crawlservice", "0011_outcome"),)

    operations = (
        migrations.AddField(
            model_name="sample",
            name="cancelled",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="task",
            name="cancelled",
            field=models.BigIntegerField(
                db_default=0,
                default=0,
                help_text=(
                    "requests that ended because the task was cancelled; NE counts them too"
                ),
                verbose_name="cancelled",
            ),
        ),
        migrations.AddField(
            model_name="task",
            name="unwritten",
            field=models.BigIntegerField(
                blank=True,
                help_text="cancelled requests whose rows are still to be written; empty: none",
                null=True,
                verbose_name="rows to be written",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("unwritten__isnull", False)),
                fields=["id"],
                name="task_unwritten",
            ),
        ),
    )
