from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("crawlservice", "0007_error_reasons"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="event",
            index=models.Index(fields=["created_at"], name="event_made"),
        ),
        migrations.AddIndex(
            model_name="generation",
            index=models.Index(fields=["started_at"], name="generation_started"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["created_at"], name="run_made"),
        ),
    ]
