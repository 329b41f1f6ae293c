"""Cancelled requests are counted apart from errors, and a cancelled task may have rows that are
still to be written."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models
from django.db.models import Count, IntegerField, OuterRef, Subquery
from django.db.models.functions import Coalesce


def count_cancelled(apps: Any, editor: Any) -> None:
    """Of tasks that have ended; those that run are counted by Redis."""
    alias = editor.connection.alias
    tasks = apps.get_model("crawlservice", "task")._default_manager.using(alias)
    pages = apps.get_model("crawlservice", "page")._default_manager.using(alias)
    mine = pages.filter(task=OuterRef("pk"), state="error", reason="cancelled")
    number = Subquery(
        mine.order_by().values("task").annotate(n=Count("pk")).values("n"),
        output_field=IntegerField(),
    )
    tasks.filter(state="cancelled").update(cancelled=Coalesce(number, 0))


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
        migrations.RunPython(count_cancelled, migrations.RunPython.noop, elidable=True),
    )
