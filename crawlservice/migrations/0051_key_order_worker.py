from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("crawlservice", "0050_request_state")]

    operations = [
        migrations.AddField(
            "item", "key_order", models.TextField("order of fields", default="", db_default="")
        ),
        migrations.AddField(
            "logline", "worker", models.TextField("worker", default="", db_default="")
        ),
    ]
