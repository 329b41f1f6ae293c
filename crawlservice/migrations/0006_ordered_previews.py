from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("crawlservice", "0005_previews")]

    operations = [
        migrations.AddField(
            "PreviewReport",
            "state",
            models.CharField(
                verbose_name="state",
                max_length=8,
                choices=[
                    ("waiting", "waiting"),
                    ("running", "running"),
                    ("done", "done"),
                    ("failed", "failed"),
                ],
                default="done",
                db_default="done",
            ),
        ),
        migrations.AddField(
            "PreviewReport",
            "given",
            models.JSONField(
                verbose_name="order", null=True, help_text="of a user; empty: of a node"
            ),
        ),
        migrations.AddField(
            "PreviewReport",
            "user",
            models.CharField(verbose_name="user", max_length=150, default="", db_default=""),
        ),
        migrations.AddField(
            "PreviewReport",
            "problem",
            models.TextField(verbose_name="problem", default="", db_default=""),
        ),
        migrations.AddField(
            "PreviewReport",
            "changed_at",
            models.DateTimeField(verbose_name="changed", null=True),
        ),
    ]
