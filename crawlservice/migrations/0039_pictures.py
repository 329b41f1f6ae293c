"""Pages name the pictures that a browser took of them."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("crawlservice", "0038_exports_beside")]

    operations = [
        migrations.AddField(
            model_name="pagefile",
            name="kind",
            field=models.CharField(db_default="", max_length=20, verbose_name="kind"),
        ),
        migrations.AddIndex(
            model_name="pagefile",
            index=models.Index(
                condition=models.Q(("kind", ""), _negated=True),
                fields=["task", "kind", "id"],
                name="page_file_pictures",
            ),
        ),
    ]
