"""The team's apps: whether migrations have all changes of their models, and the tables that they
have in other databases, brought up to date."""

from __future__ import annotations

import time
from pathlib import Path

from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.db import DatabaseError, connection, connections
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState

from crawlframe.base.program import command
from crawlframe.code.source import INSTALLED
from crawlframe.errors import ConfigError, TablesMissing
from crawlservice.connections.database import migrations, one_migrates
from crawlservice.connections.routing import routed_apps

CHECK_EVERY = 30.0  # seconds between two checks of the migrations that others have


def check_models() -> None:
    """Raises ConfigError if models of the team's apps have changes that no migration has: their
    rows could not be stored."""
    labels = {
        app.label
        for app in apps.get_app_configs()
        if {app.name, f"{type(app).__module__}.{type(app).__name__}"} & {*settings.APPS}
        and not any(name in Path(app.path).parts for name in INSTALLED)
    }
    if not labels:
        return
    loader = MigrationLoader(None)
    changes = MigrationAutodetector(loader.project_state(), ProjectState.from_apps(apps))
    lacking = " ".join(sorted(changes.changes(loader.graph, trim_to_apps=labels)))
    if lacking:
        raise ConfigError(
            f"models of {lacking} have changes without a migration; run: "
            f"{command('makemigrations')} {lacking}, then {command('migrate')}"
        )


def prepare() -> list[str]:
    """Checks that the tables fit this version. Otherwise the version is refused; on SQLite, and
    with CRAWLFRAME_AUTO_MIGRATE=1, they are migrated. Returns a warning for each database that
    cannot be reached: its rows wait. Raises ConfigError."""
    warnings = []
    for alias in _aliases():
        try:
            _prepare(alias)
        except DatabaseError as error:
            reason = " ".join(str(error).split())
            warnings.append(f"the database {alias} cannot be used: {reason}; its rows wait")
        finally:
            connections[alias].close()
    return warnings


def _prepare(alias: str) -> None:
    # Apps whose tables in this database belong to another version.
    executor = MigrationExecutor(connections[alias])
    mine = [leaf for leaf in executor.loader.graph.leaf_nodes() if _alias_of(leaf) == alias]
    lacking = sorted({app for app, name in mine if executor.migration_plan([(app, name)])})
    if not lacking:
        return
    if connections[alias].vendor != "sqlite" and not settings.AUTO_MIGRATE:
        raise TablesMissing(
            f"the database {alias} lacks tables of this version; run: {command('migrate')} "
            f"{lacking[0]} --database {alias} (or set CRAWLFRAME_AUTO_MIGRATE=1)"
        )
    with one_migrates():
        for app in lacking:
            call_command("migrate", app, database=alias, interactive=False, verbosity=0)


def _alias_of(leaf: tuple[str, str]) -> str | None:
    return routed_apps().get(leaf[0])


def _aliases() -> list[str]:
    return sorted({*routed_apps().values()})


class Migrations:
    """The applied migrations of the default database and of the others."""

    def __init__(self) -> None:
        self._next, self._others = 0.0, ""

    @property
    def matter(self) -> bool:
        """Whether nodes wait for migrations. SQLite is migrated automatically."""
        return any(connections[alias].vendor != "sqlite" for alias in ("default", *_aliases()))

    def mark(self) -> str:
        """Changes with every migration that is applied or reverted. Raises django.db.Error of the
        default database."""
        now = time.monotonic()
        if now >= self._next:
            self._others = " ".join(map(_mark, _aliases()))
            self._next = now + CHECK_EVERY
        own = migrations() if connection.vendor != "sqlite" else ""
        return f"{own} {self._others}".strip()


def _mark(alias: str) -> str:
    try:
        return migrations(alias)
    except DatabaseError:
        return "away"
    finally:
        connections[alias].close()
