"""That an alert was reported to a target, so that two rules with one target report it once."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("crawlservice", "0036_files")]

    operations = [
        migrations.CreateModel(
            name="AlertReport",
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
                        related_name="reports",
                        to="crawlservice.alert",
                    ),
                ),
                (
                    "target",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="crawlservice.alerttarget",
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="alertreport",
            constraint=models.UniqueConstraint(
                fields=("target", "alert"), name="alert_report_once"
            ),
        ),
    ]
