import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("crawlservice", "0012_cancelled"),
    ]

    operations = [
        migrations.AddField(
            model_name="event",
            name="schedule",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                to="crawlservice.schedule",
                verbose_name="schedule",
            ),
        ),
        migrations.AlterField(
            model_name="event",
            name="kind",
            field=models.CharField(
                choices=[
                    ("finished", "finished"),
                    ("failed", "failed"),
                    ("cancelled", "cancelled"),
                    ("schedule_failed", "schedule failed"),
                    ("node_offline", "node offline"),
                    ("node_back", "node back"),
                ],
                max_length=20,
                verbose_name="kind",
            ),
        ),
        migrations.AddField(
            model_name="schedule",
            name="problem",
            field=models.TextField(
                blank=True,
                db_default="",
                default="",
                editable=False,
                help_text="why it cannot start; empty if the last start succeeded",
                verbose_name="problem",
            ),
        ),
        migrations.AddField(
            model_name="schedule",
            name="problem_since",
            field=models.DateTimeField(blank=True, editable=False, null=True, verbose_name="since"),
        ),
    ]
