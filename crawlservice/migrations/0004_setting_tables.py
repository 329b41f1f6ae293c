"""Settings in rows of tasks, schedules, watches and recipes get this version's form: some are
tables."""

from __future__ import annotations

import json
from typing import Any

from django.db import migrations

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


def forwards(apps: Any, schema_editor: Any) -> None:
    for name in ("Task", "Schedule", "Watch"):
        rows = apps.get_model("crawlservice", name).objects.using(schema_editor.connection.alias)
        kept = rows.filter(overrides__has_any_keys=[*PARTS])
        for pk, settings in kept.values_list("pk", "overrides").iterator():
            rows.filter(pk=pk).update(overrides=with_tables(settings))
    for name in ("Recipe", "RecipeVersion"):
        rows = apps.get_model("crawlservice", name).objects.using(schema_editor.connection.alias)
        for pk, text in rows.filter(text__contains='"settings"').values_list("pk", "text"):
            recipe = json.loads(text)
            settings = recipe.get("settings")
            if isinstance(settings, dict) and (new := with_tables(settings)) != settings:
                recipe["settings"] = new
                rows.filter(pk=pk).update(text=json.dumps(recipe, ensure_ascii=False))


class Migration(migrations.Migration):
    dependencies = [("crawlservice", "0003_host_gates")]

    operations = [migrations.RunPython(forwards, migrations.RunPython.noop)]
