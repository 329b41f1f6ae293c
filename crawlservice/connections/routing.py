"""Routing: which database has the tables of an app."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS
from django.db.models import Model

ASIDE = "aside"  # alias of the connection to a file that is being made for the default one


class AppDatabases:
    """Django's router: the team's apps that name another database have their tables there, and
    everything else is in the default one."""

    def db_for_read(self, model: type[Model], **_hints: Any) -> str | None:
        return other_database(model._meta.app_label)

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **_hints: Any) -> bool:
        wanted = other_database(app_label) or DEFAULT_DB_ALIAS
        return wanted == (DEFAULT_DB_ALIAS if db == ASIDE else db)


def other_database(app_label: str) -> str | None:
    """Alias of an app's database; None: the app has its tables in the default one."""
    return routed_apps().get(app_label) if settings.APP_DATABASES else None


@cache
def routed_apps() -> dict[str, str]:
    """The apps with tables in another database, by their labels."""
    return {
        app.label: alias
        for app in apps.get_app_configs()
        for name, alias in settings.APP_DATABASES.items()
        if name in (app.name, f"{type(app).__module__}.{type(app).__name__}")
    }
