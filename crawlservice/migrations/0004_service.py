import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("crawlservice", "0003_era"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Action",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), db_index=True
                    ),
                ),
                ("address", models.GenericIPAddressField(blank=True, null=True)),
                ("verb", models.CharField(max_length=40)),
                ("detail", models.JSONField(blank=True, default=dict)),
            ],
            options={
                "ordering": ("-id",),
            },
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("attempts", models.SmallIntegerField(default=0)),
                (
                    "next_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        help_text="empty: no more attempts",
                        null=True,
                    ),
                ),
                ("delivered_at", models.DateTimeField(blank=True, null=True)),
                ("problem", models.TextField(blank=True, help_text="of the last attempt")),
            ],
            options={
                "verbose_name_plural": "deliveries",
                "ordering": ("-id",),
            },
        ),
        migrations.CreateModel(
            name="Run",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("due_at", models.DateTimeField()),
                (
                    "outcome",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("submitted", "Submitted"),
                            ("skipped", "Skipped"),
                            ("missed", "Missed"),
                            ("failed", "Failed"),
                        ],
                        default="waiting",
                        max_length=9,
                    ),
                ),
                ("problem", models.TextField(blank=True)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
            ],
            options={
                "ordering": ("-due_at",),
            },
        ),
        migrations.CreateModel(
            name="Sample",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("nf", models.BigIntegerField()),
                ("ne", models.BigIntegerField()),
                ("items", models.BigIntegerField()),
                ("ready", models.BigIntegerField()),
                ("in_progress", models.BigIntegerField()),
                ("delayed", models.BigIntegerField()),
                ("parked", models.BigIntegerField()),
            ],
            options={
                "ordering": ("at",),
            },
        ),
        migrations.CreateModel(
            name="Schedule",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=100, unique=True)),
                ("spider", models.CharField(max_length=100)),
                ("arguments", models.JSONField(blank=True, default=dict)),
                (
                    "priority",
                    models.SmallIntegerField(
                        default=0,
                        help_text="-100 to 100; higher runs first",
                        validators=[
                            django.core.validators.MinValueValidator(-100),
                            django.core.validators.MaxValueValidator(100),
                        ],
                    ),
                ),
                (
                    "cron",
                    models.CharField(
                        blank=True,
                        help_text="minute, hour, day of month, month, day of week: 0 6 * * 1-5",
                        max_length=100,
                    ),
                ),
                (
                    "every",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="seconds between two starts; instead of cron",
                        null=True,
                    ),
                ),
                (
                    "timezone",
                    models.CharField(
                        default="UTC", help_text="such as Asia/Shanghai", max_length=64
                    ),
                ),
                (
                    "overlap",
                    models.CharField(
                        choices=[
                            ("skip", "skip it while the last run is active"),
                            ("queue", "start after the last run has ended"),
                            ("cancel", "cancel the last run, and start"),
                            ("allow", "start alongside the last run"),
                        ],
                        default="skip",
                        max_length=6,
                    ),
                ),
                (
                    "missed",
                    models.CharField(
                        choices=[
                            ("once", "once, however many were missed"),
                            ("skip", "not at all"),
                        ],
                        default="once",
                        help_text="what to do about starts that were due while no node was running",
                        max_length=4,
                    ),
                ),
                ("enabled", models.BooleanField(default=True)),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), editable=False
                    ),
                ),
                (
                    "next_at",
                    models.DateTimeField(blank=True, db_index=True, editable=False, null=True),
                ),
            ],
            options={
                "ordering": ("name",),
            },
        ),
        migrations.CreateModel(
            name="Submission",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=200)),
                (
                    "digest",
                    models.CharField(help_text="of what was submitted with it", max_length=64),
                ),
                ("tasks", models.JSONField(default=list, help_text="numbers of the tasks")),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), db_index=True
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Token",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(help_text="what it is for", max_length=100)),
                (
                    "start",
                    models.CharField(
                        editable=False, help_text="its first characters", max_length=12
                    ),
                ),
                ("digest", models.CharField(editable=False, max_length=64, unique=True)),
                ("scopes", models.JSONField(default=list)),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), editable=False
                    ),
                ),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("used_at", models.DateTimeField(blank=True, editable=False, null=True)),
            ],
            options={
                "ordering": ("-id",),
            },
        ),
        migrations.CreateModel(
            name="Webhook",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=100, unique=True)),
                ("url", models.URLField(max_length=500)),
                (
                    "secret",
                    models.CharField(
                        help_text="signs what is sent (HMAC-SHA256); whoever receives it checks that",
                        max_length=100,
                    ),
                ),
                (
                    "spider",
                    models.CharField(
                        blank=True,
                        help_text="only events of this spider; empty: of all spiders",
                        max_length=100,
                    ),
                ),
                (
                    "kinds",
                    models.JSONField(
                        blank=True,
                        default=list,
                        help_text='such as ["finished"]; empty: all kinds of events',
                    ),
                ),
                ("enabled", models.BooleanField(default=True)),
            ],
            options={
                "ordering": ("name",),
            },
        ),
        migrations.AlterModelOptions(
            name="task",
            options={
                "ordering": ("-id",),
                "permissions": (
                    ("submit_task", "Can submit tasks, and steer those of their own"),
                    ("steer_task", "Can pause, resume, cancel and retry any task"),
                ),
            },
        ),
        migrations.AddField(
            model_name="task",
            name="retries",
            field=models.PositiveIntegerField(
                db_default=0, default=0, help_text="how often its failed requests were run again"
            ),
        ),
        migrations.AddField(
            model_name="task",
            name="user",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                help_text="who submitted it; nobody when a command or a schedule did",
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AlterField(
            model_name="task",
            name="spider",
            field=models.CharField(max_length=100),
        ),
        migrations.AddIndex(
            model_name="page",
            index=models.Index(
                condition=models.Q(("state", "error")),
                fields=["task", "id"],
                name="page_task_error",
            ),
        ),
        migrations.AddIndex(
            model_name="page",
            index=models.Index(
                condition=models.Q(("state", "error")), fields=["id"], name="page_error"
            ),
        ),
        migrations.AddField(
            model_name="action",
            name="task",
            field=models.ForeignKey(
                blank=True,
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                to="crawlservice.task",
            ),
        ),
        migrations.AddField(
            model_name="action",
            name="user",
            field=models.ForeignKey(
                help_text="nobody: a command",
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="delivery",
            name="event",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, to="crawlservice.event"
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="task",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                to="crawlservice.task",
            ),
        ),
        migrations.AddField(
            model_name="sample",
            name="task",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                to="crawlservice.task",
            ),
        ),
        migrations.AddField(
            model_name="schedule",
            name="user",
            field=models.ForeignKey(
                blank=True,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="schedule",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="runs",
                to="crawlservice.schedule",
            ),
        ),
        migrations.AddField(
            model_name="task",
            name="schedule",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                to="crawlservice.schedule",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(fields=["spider", "id"], name="task_spider"),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(fields=["schedule", "id"], name="task_schedule"),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(fields=["user", "id"], name="task_user"),
        ),
        migrations.AddField(
            model_name="submission",
            name="user",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="token",
            name="user",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="action",
            name="token",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                to="crawlservice.token",
            ),
        ),
        migrations.AddField(
            model_name="delivery",
            name="webhook",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="deliveries",
                to="crawlservice.webhook",
            ),
        ),
        migrations.AddIndex(
            model_name="sample",
            index=models.Index(fields=["task", "at"], name="sample_task"),
        ),
        migrations.AddIndex(
            model_name="sample",
            index=models.Index(fields=["at"], name="sample_at"),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.UniqueConstraint(fields=("schedule", "due_at"), name="run_once"),
        ),
        migrations.AddConstraint(
            model_name="submission",
            constraint=models.UniqueConstraint(fields=("user", "key"), name="submission_once"),
        ),
        migrations.AddIndex(
            model_name="action",
            index=models.Index(fields=["task", "id"], name="action_task"),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("next_at__isnull", False)),
                fields=["next_at"],
                name="delivery_due",
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.UniqueConstraint(fields=("webhook", "event"), name="delivery_once"),
        ),
    ]
