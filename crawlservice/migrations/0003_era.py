import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("crawlservice", "0002_version")]

    operations = [
        migrations.CreateModel(
            name="Era",
            fields=[
                ("number", models.BigIntegerField(primary_key=True, serialize=False)),
                ("reason", models.TextField()),
                (
                    "started_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                (
                    "opened_at",
                    models.DateTimeField(
                        blank=True, help_text="when Redis was whole again", null=True
                    ),
                ),
            ],
            options={"ordering": ("-number",)},
        ),
    ]
