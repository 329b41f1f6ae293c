"""Settings of single tasks."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("crawlservice", "0023_usage"),
    ]

    operations = [
        migrations.AddField(
            model_name="task",
            name="overrides",
            field=models.JSONField(
                blank=True,
                db_default={},
                default=dict,
                help_text="settings that it has instead of those of its spider",
                verbose_name="settings",
            ),
        ),
        migrations.AddField(
            model_name="schedule",
            name="overrides",
            field=models.JSONField(
                blank=True,
                db_default={},
                default=dict,
                help_text="settings that its tasks have instead of those of the spider",
                verbose_name="settings",
            ),
        ),
    ]
