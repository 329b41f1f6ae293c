"""Names of models, fields and choices. Only the state of the models changes, in one step for all;
the database is not affected."""

from __future__ import annotations

from typing import Any

from django.db import migrations
from django.db.migrations.operations.base import Operation

MODELS = {
    "action": "journal",
    "delivery": "deliveries",
    "era": "eras",
    "event": "events",
    "generation": "nodes",
    "item": "items",
    "page": "pages",
    "run": "runs",
    "schedule": "schedules",
    "task": "tasks",
    "token": "tokens",
    "webhook": "webhooks",
}
# Fields whose title is not their name.
FIELDS = {
    "action": {"at": "time", "verb": "action"},
    "delivery": {"delivered_at": "delivered", "next_at": "next attempt"},
    "era": {"opened_at": "opened", "started_at": "started"},
    "event": {"created_at": "created", "delivered_at": "delivered"},
    "generation": {"pid": "process id", "started_at": "started"},
    "item": {
        "created_at": "created",
        "ordinal": "place on the page",
        "rid": "request id",
        "version": "code version",
    },
    "page": {
        "created_at": "created",
        "deliveries": "handed to workers",
        "fetch_ms": "fetch, ms",
        "rid": "request id",
        "status": "HTTP status",
        "url": "URL",
        "version": "code version",
    },
    "run": {"created_at": "created", "due_at": "due at"},
    "schedule": {
        "created_at": "created",
        "missed": "missed starts",
        "next_at": "next",
        "timezone": "time zone",
    },
    "task": {"created_at": "created", "finished_at": "ended at", "settings": "limits"},
    "token": {
        "created_at": "created",
        "expires_at": "expires",
        "revoked_at": "revoked at",
        "start": "first characters",
        "used_at": "last used",
    },
    "webhook": {"kinds": "kinds of events", "url": "URL"},
}
UNNAMED = {  # no page shows them
    ("page", "follow_ups"), ("page", "request"), ("task", "seeds"), ("token", "digest"),
}  # fmt: skip
LABELLED = {("event", "kind"), ("page", "state"), ("run", "outcome"), ("task", "state")}
HELP = {
    ("page", "status"): "",
    ("task", "settings"): "as the spider was published",
    ("token", "start"): "",
}


class Rename(Operation):
    def state_forwards(self, app_label: str, state: Any) -> None:
        for model, plural in MODELS.items():
            known = state.models[app_label, model]
            singular = "node" if model == "generation" else model
            known.options |= {"verbose_name": singular, "verbose_name_plural": plural}
            for name, field in known.fields.items():
                if not field.primary_key or model == "era":
                    known.fields[name] = renamed(model, name, field)
        state.reload_models([(app_label, model) for model in MODELS], delay=False)

    def database_forwards(self, *args: Any) -> None:
        pass

    def database_backwards(self, *args: Any) -> None:
        pass

    def describe(self) -> str:
        return "Names of models, fields and choices"


def renamed(model: str, name: str, field: Any) -> Any:
    _, _, given, words = field.deconstruct()
    if (model, name) not in UNNAMED:
        words["verbose_name"] = FIELDS[model].get(name, words.get("verbose_name", name))
    if (model, name) in LABELLED:
        words["choices"] = [(value, value) for value, _ in field.choices]
    if (model, name) in HELP:
        words["help_text"] = HELP[model, name]
    return type(field)(*given, **words)


class Migration(migrations.Migration):
    dependencies = [("crawlservice", "0008_pruning")]
    operations = [Rename()]
