from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("crawlservice", "0049_alias_rules"),
    ]

    operations = [
        migrations.AddField(
            model_name="page",
            name="landing",
            field=models.JSONField(
                editable=False,
                help_text="the rid and URL of the target of its redirects",
                null=True,
            ),
        ),
    ]
