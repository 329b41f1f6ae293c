"""Lists of proxies that the tasks of a spider name."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("crawlservice", "0039_pictures"),
    ]

    operations = [
        migrations.AddField(
            model_name="proxy",
            name="named_by",
            field=models.BigIntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.AddField(
            model_name="proxysource",
            name="judged",
            field=models.BigIntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.AddField(
            model_name="proxysource",
            name="run",
            field=models.BigIntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.AddField(
            model_name="proxysource",
            name="spider",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="one that yields Proxy items, in place of a URL or a path",
                max_length=100,
                verbose_name="spider",
            ),
        ),
        migrations.AlterField(
            model_name="proxysource",
            name="every",
            field=models.IntegerField(
                default=3600,
                help_text="seconds between two reads; 0: the spider has a schedule of its own",
                verbose_name="every",
            ),
        ),
    ]
