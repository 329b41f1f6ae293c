"""Results of kept pages, which are taken over while the pages do not change."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("crawlservice", "0043_kept_pages"),
    ]

    operations = [
        migrations.AddField(
            model_name="keptpage",
            name="follow_ups",
            field=models.BinaryField(help_text="msgpack list of records, by Zstandard", null=True),
        ),
        migrations.AddField(
            model_name="keptpage",
            name="signature",
            field=models.BinaryField(
                help_text="of what ran its callback", max_length=16, null=True
            ),
        ),
    ]
