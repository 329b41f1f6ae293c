import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("crawlservice", "0005_schedules"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="SetupLink",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("digest", models.CharField(max_length=64, unique=True)),
                ("expires_at", models.DateTimeField()),
            ],
        ),
        migrations.AddField(
            model_name="action",
            name="name",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="of the user at that time; nobody: a command, or before a login",
                max_length=150,
            ),
        ),
        migrations.AlterField(
            model_name="action",
            name="user",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddIndex(
            model_name="action",
            index=models.Index(fields=["user", "id"], name="action_user"),
        ),
        migrations.AddIndex(
            model_name="action",
            index=models.Index(fields=["verb", "id"], name="action_verb"),
        ),
    ]
