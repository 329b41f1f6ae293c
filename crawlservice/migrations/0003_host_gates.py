from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("crawlservice", "0002_from_pilot")]

    operations = [
        migrations.AddField(
            "host",
            "gates",
            models.JSONField(
                "further rules",
                default=dict,
                db_default=models.Value({}, models.JSONField()),
                blank=True,
                help_text="of the order, by name",
            ),
        ),
    ]
