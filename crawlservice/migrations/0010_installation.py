"""Which cluster this database belongs to, how lives of nodes ended, and events of nodes."""

from __future__ import annotations

import uuid
from typing import Any

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


def make_installation(apps: Any, schema_editor: Any) -> None:
    installations = apps.get_model("crawlservice", "Installation").objects
    installations.using(schema_editor.connection.alias).create()


def close_past_lives(apps: Any, schema_editor: Any) -> None:
    """How they ended was not recorded. Those that live now are reported if they die."""
    lives = apps.get_model("crawlservice", "Generation").objects
    lives.using(schema_editor.connection.alias).update(fate="unknown")


def delete_events_without_task(apps: Any, schema_editor: Any) -> None:
    """Backwards: an event needs a task."""
    connection = schema_editor.connection
    events = apps.get_model("crawlservice", "Event").objects.using(connection.alias)
    events.filter(task=None).delete()
    connection.check_constraints()  # PostgreSQL alters no table while deferred checks are pending


class Migration(migrations.Migration):
    dependencies = [
        ("crawlservice", "0009_words"),
    ]

    operations = [
        migrations.CreateModel(
            name="Installation",
            fields=[
                ("id", models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("uuid", models.UUIDField(default=uuid.uuid4)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
            ],
        ),
        migrations.AlterModelOptions(
            name="generation",
            options={
                "ordering": ("-id",),
                "permissions": (("forget_generation", "Can forget offline nodes"),),
                "verbose_name": "node",
                "verbose_name_plural": "nodes",
            },
        ),
        migrations.AddField(
            model_name="event",
            name="detail",
            field=models.JSONField(blank=True, null=True, verbose_name="detail"),
        ),
        migrations.AddField(
            model_name="event",
            name="node",
            field=models.CharField(
                blank=True, db_default="", default="", max_length=100, verbose_name="node"
            ),
        ),
        migrations.AddField(
            model_name="generation",
            name="ended_at",
            field=models.DateTimeField(blank=True, null=True, verbose_name="ended at"),
        ),
        migrations.AddField(
            model_name="generation",
            name="fate",
            field=models.CharField(
                blank=True,
                choices=[
                    ("", "alive"),
                    ("left", "stopped"),
                    ("died", "died"),
                    ("replaced", "replaced"),
                    ("unknown", "unknown"),
                ],
                db_default="",
                default="",
                max_length=8,
                verbose_name="fate",
            ),
        ),
        migrations.AddField(
            model_name="generation",
            name="given_back",
            field=models.IntegerField(
                db_default=0,
                default=0,
                help_text="requests that it held when it died; other nodes run them",
                verbose_name="given back",
            ),
        ),
        migrations.AddField(
            model_name="generation",
            name="offline",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="it died, and its node has neither come back nor been forgotten",
                verbose_name="offline",
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
                    ("node_offline", "node offline"),
                    ("node_back", "node back"),
                ],
                max_length=20,
                verbose_name="kind",
            ),
        ),
        migrations.AlterField(
            model_name="event",
            name="task",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                to="crawlservice.task",
                verbose_name="task",
            ),
        ),
        migrations.AddIndex(
            model_name="generation",
            index=models.Index(
                condition=models.Q(("fate", "")), fields=["id"], name="generation_alive"
            ),
        ),
        migrations.AddIndex(
            model_name="generation",
            index=models.Index(
                condition=models.Q(("offline", True)), fields=["id"], name="generation_offline"
            ),
        ),
        migrations.RunPython(make_installation, migrations.RunPython.noop),
        migrations.RunPython(close_past_lives, migrations.RunPython.noop),
        migrations.RunPython(migrations.RunPython.noop, delete_events_without_task),
    ]
