"""A database of the pilot, whose migrations were 0001 to 0052, has the tables of 0001 already."""

from __future__ import annotations

from typing import Any

from django.db import migrations
from django.db.migrations.recorder import MigrationRecorder

from crawlframe.errors import ConfigError

LAST_COMMIT = "03328a8d"  # with the migrations of the pilot


def refuse_older(apps: Any, schema_editor: Any) -> None:
    """The last migration of the pilot added the column ``idle``."""
    connection = schema_editor.connection
    table = apps.get_model("crawlservice", "Task")._meta.db_table
    with connection.cursor() as cursor:
        columns = connection.introspection.get_table_description(cursor, table)
    if "idle" not in {column.name for column in columns}:
        raise ConfigError(
            "the tables of this database are older than the pilot's last migration; first run "
            f"python manage.py migrate with the code of commit {LAST_COMMIT}, then with this code"
        )


def forget_names(apps: Any, schema_editor: Any) -> None:
    """A new migration could have the name of one of the pilot's, and would then be passed over."""
    applied = MigrationRecorder(schema_editor.connection).migration_qs
    applied.filter(app="crawlservice").exclude(name="0001_initial").delete()


class Migration(migrations.Migration):
    dependencies = [("crawlservice", "0001_initial")]

    operations = [
        migrations.RunPython(refuse_older, migrations.RunPython.noop),
        migrations.RunPython(forget_names, migrations.RunPython.noop),
    ]
