from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("crawlservice", "0004_service"),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name="delivery",
            name="delivery_due",
        ),
        migrations.AlterField(
            model_name="event",
            name="delivered_at",
            field=models.DateTimeField(
                blank=True, help_text="when its webhook deliveries were made", null=True
            ),
        ),
        migrations.AlterField(
            model_name="event",
            name="kind",
            field=models.CharField(
                choices=[
                    ("finished", "Finished"),
                    ("failed", "Failed"),
                    ("cancelled", "Cancelled"),
                ],
                max_length=20,
            ),
        ),
        migrations.AlterField(
            model_name="webhook",
            name="kinds",
            field=models.JSONField(
                blank=True,
                default=list,
                help_text='such as ["finished"]; empty: all kinds of events',
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("next_at__isnull", False)),
                fields=["webhook", "next_at"],
                name="delivery_next",
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("delivered_at__isnull", True)),
                fields=["id"],
                name="delivery_open",
            ),
        ),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(
                condition=models.Q(("delivered_at__isnull", True)), fields=["id"], name="event_new"
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["outcome", "schedule"], name="run_outcome"),
        ),
    ]
