from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("crawlservice", "0006_people"),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name="page",
            name="page_task_error",
        ),
        migrations.AddIndex(
            model_name="page",
            index=models.Index(
                condition=models.Q(("state", "error")),
                fields=["task", "id"],
                include=("reason",),
                name="page_task_error",
            ),
        ),
    ]
