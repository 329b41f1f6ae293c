from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("crawlservice", "0003_no_saved_views")]

    operations = [
        migrations.AddField(
            "KeptPage",
            "sample",
            models.CharField(
                verbose_name="sample",
                max_length=100,
                null=True,
                help_text="the callback whose good pages it stands for; empty: it is kept for itself",
            ),
        ),
        migrations.AddIndex(
            "KeptPage",
            models.Index(
                fields=("id",),
                name="kept_page_sample",
                condition=models.Q(sample__isnull=False),
            ),
        ),
    ]
