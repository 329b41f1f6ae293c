"""A database of the pilot, whose migrations were 0001 to 0052, has the tables of 0001 but for the
column of rules of hosts, and a table of dictionaries with which its pages may be compressed. Some
settings in its rows are tables now."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from django.db import migrations, models, router, transaction
from django.db.migrations.operations.base import Operation
from django.db.migrations.recorder import MigrationRecorder

from crawlframe.base.zstd import ZstdCompressor, ZstdDecompressor, ZstdDict, ZstdError
from crawlframe.errors import ConfigError

FIRST, LAST = "0001_initial", "0052_task_idle"  # migrations of the pilot
LAST_COMMIT = "03328a8d"  # which has them
ALERTS, DICTIONARIES = "crawlservice_alert", "crawlservice_pagedictionary"  # tables
LEVEL = 1  # of Zstandard
BATCH = 200  # bodies in one transaction
OF_PILOT = (
    migrations.CreateModel(
        "PageDictionary",
        fields=[("id", models.BigAutoField(primary_key=True)), ("content", models.BinaryField())],
    ),
    migrations.AddField(
        "pagebody",
        "dictionary",
        models.ForeignKey("crawlservice.PageDictionary", models.PROTECT, null=True),
    ),
    migrations.RemoveField("host", "gates"),
)
# Setting of the pilot -> table and part.
PARTS = {
    "browser_block": ("browser", "block"),
    "browser_failure_pictures": ("browser", "failure_pictures"),
    "browser_settle": ("browser", "settle"),
    "conditional": ("reuse", "conditional"),
    "ip_concurrency": ("ip", "concurrency"),
    "ip_delay": ("ip", "delay"),
    "max_age": ("reuse", "max_age"),
    "near_duplicates": ("near_duplicates", "action"),
    "near_likeness": ("near_duplicates", "likeness"),
    "near_limit": ("near_duplicates", "limit"),
    "near_within": ("near_duplicates", "within"),
    "skip_unchanged": ("reuse", "skip_unchanged"),
}


class FromPilot(Operation):
    """Leaves the tables that 0001 makes, and the pages without a dictionary."""

    reduces_to_sql = False

    def state_forwards(self, app_label: str, state: Any) -> None:
        """The state does not change: 0001 made it."""

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        connection = schema_editor.connection
        if not router.allow_migrate(connection.alias, app_label):
            return
        applied = MigrationRecorder(connection).migration_qs.filter(app=app_label)
        tables = connection.introspection.table_names()
        refuse_older({*applied.values_list("name", flat=True)}, tables)
        if DICTIONARIES in tables:
            pilot = from_state.clone()
            for operation in OF_PILOT:
                operation.state_forwards(app_label, pilot)
            compress_again(pilot.apps, connection.alias)
            rewrite_settings(pilot.apps, connection.alias)
            with transaction.atomic(using=connection.alias):
                for operation in reversed(OF_PILOT):
                    operation.database_backwards(app_label, schema_editor, pilot, to_state)
        # A new migration could have the name of one of the pilot's, and would be passed over.
        applied.exclude(name=FIRST).delete()

    def database_backwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        """The tables stay as 0001 made them."""


def refuse_older(names: Collection[str], tables: Collection[str]) -> None:
    """``names``: of the applied migrations. Raises ConfigError if they end before the pilot's last
    one. The pilot's first one made no alerts."""
    if LAST not in names and (names != {FIRST} or ALERTS not in tables):
        raise ConfigError(
            f"the tables of this database are older than the pilot's last migration, {LAST}; first "
            f"run python manage.py migrate with the code of commit {LAST_COMMIT}, then with this "
            "code"
        )


def compress_again(apps: Any, alias: str) -> None:
    """Compresses in batches: after an interruption, it continues."""
    bodies = apps.get_model("crawlservice", "PageBody").objects.using(alias)
    dictionaries = apps.get_model("crawlservice", "PageDictionary").objects.using(alias)
    compressor = ZstdCompressor(level=LEVEL)
    for dictionary in dictionaries.values_list("pk", flat=True):
        content = bytes(dictionaries.get(pk=dictionary).content)
        rows = bodies.filter(dictionary=dictionary).values_list("pk", flat=True)
        while numbers := [*rows[:BATCH]]:
            with transaction.atomic(using=alias):
                for number in numbers:
                    body = bodies.get(pk=number)
                    try:
                        reader = ZstdDecompressor(zstd_dict=ZstdDict(content))
                        plain = reader.decompress(bytes(body.data), body.size + 1)
                        body.data = compressor.compress(plain, mode=ZstdCompressor.FLUSH_FRAME)
                    except (ZstdError, ValueError):
                        pass  # a damaged page, which is still found to be that when it is read
                    body.stored, body.dictionary = len(body.data), None
                    body.save(update_fields=["data", "stored", "dictionary"])


def with_tables(given: dict[str, Any]) -> dict[str, Any]:
    """The settings in the new form; settings that have it stay as they are."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        table, part = PARTS.get(name, (name, ""))
        if part and not isinstance(value, dict):
            found[table] = {**found.get(table, {}), part: value}
        else:
            found[name] = value
    return found


def rewrite_settings(apps: Any, alias: str) -> None:
    """Gives settings in rows of tasks, schedules, watches and recipes their new form."""
    for name in ("Task", "Schedule", "Watch"):
        rows = apps.get_model("crawlservice", name).objects.using(alias)
        kept = rows.filter(overrides__has_any_keys=[*PARTS])
        for pk, settings in kept.values_list("pk", "overrides").iterator():
            rows.filter(pk=pk).update(overrides=with_tables(settings))
    for name in ("Recipe", "RecipeVersion"):
        rows = apps.get_model("crawlservice", name).objects.using(alias)
        for pk, text in rows.filter(text__contains='"settings"').values_list("pk", "text"):
            recipe = json.loads(text)
            settings = recipe.get("settings")
            if isinstance(settings, dict) and (new := with_tables(settings)) != settings:
                recipe["settings"] = new
                rows.filter(pk=pk).update(text=json.dumps(recipe, ensure_ascii=False))


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("crawlservice", "0001_initial")]

    operations = [FromPilot()]
