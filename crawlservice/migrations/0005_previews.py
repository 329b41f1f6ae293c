from django.db import migrations, models
from django.db.models.functions import Now


class Migration(migrations.Migration):
    dependencies = [("crawlservice", "0004_samples")]

    operations = [
        migrations.CreateModel(
            "PreviewReport",
            [
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "version",
                    models.CharField(verbose_name="code version", max_length=300, db_index=True),
                ),
                ("against", models.CharField(verbose_name="compared with", max_length=300)),
                ("node", models.CharField(verbose_name="node", max_length=100)),
                ("pages", models.IntegerField(verbose_name="pages", default=0)),
                ("errors", models.IntegerField(verbose_name="errors by the rules", default=0)),
                (
                    "report",
                    models.JSONField(
                        verbose_name="report", default=dict, help_text="as the API shows it"
                    ),
                ),
                ("created_at", models.DateTimeField(verbose_name="created", db_default=Now())),
            ],
            options={
                "verbose_name": "preview",
                "verbose_name_plural": "previews",
                "ordering": ("-id",),
            },
        ),
    ]
