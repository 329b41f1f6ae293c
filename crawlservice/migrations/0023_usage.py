"""What pages say about their use."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("crawlservice", "0022_budgets"),
    ]

    operations = [
        migrations.AddField(
            model_name="page",
            name="usage",
            field=models.JSONField(
                blank=True,
                help_text="what the page says about its use; empty if it says nothing",
                null=True,
                verbose_name="usage",
            ),
        ),
    ]
