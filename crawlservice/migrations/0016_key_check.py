"""A check value of the secret key, and which nodes end by themselves."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("crawlservice", "0015_ended_tasks")]

    operations = [
        migrations.AddField(
            model_name="installation",
            name="key_check",
            field=models.TextField(blank=True, db_default="", default="", editable=False),
        ),
        migrations.AddField(
            model_name="generation",
            name="once",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="it ends when no task is left; when it dies, it is not shown as offline",
                verbose_name="once",
            ),
        ),
    ]
