"""The redirects of a page, with their statuses."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("crawlservice", "0018_robots"),
    ]

    operations = [
        migrations.AddField(
            model_name="page",
            name="redirects",
            field=models.JSONField(
                blank=True,
                help_text="statuses and URLs that the request was redirected to; 20 at most",
                null=True,
                verbose_name="redirects",
            ),
        ),
    ]
