"""Brings the database's tables up to date, once, before a command uses them."""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.db import (
    DEFAULT_DB_ALIAS,
    DatabaseError,
    NotSupportedError,
    OperationalError,
    connection,
    connections,
)
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.migrations.state import ProjectState
from django.db.models import Count, Max

from crawlframe.base.program import command
from crawlframe.code.source import INSTALLED
from crawlframe.errors import ConfigError, TablesMissing
from crawlservice.connections.checks import check_database
from crawlservice.connections.routing import ASIDE

MENDS = {  # kind of database -> words of a failure -> the fix
    "sqlite": {
        "readonly database|unable to open|Permission denied|Read-only file system|No such file": (
            "make it and its directory writable, or set CRAWLFRAME_VAR_DIR"
        ),
        "database is locked": "another process has been writing to it for long; wait until it ends",
        "database or disk is full|disk I/O error": "free space on its disk",
        "not a database|malformed": "restore a copy, or name another file in DATABASE_URL",
    },
    "postgresql": {
        "permission denied for": (
            "give the user of DATABASE_URL the rights: GRANT ALL ON SCHEMA public TO user"
        ),
        "or later is required": "upgrade it, or name a newer one in DATABASE_URL",
        "too many (clients|connections)|connection slots": (
            "allow more connections, or stop other programs"
        ),
    },
}
MIGRATION_LOCK = 0x637261776C  # the PostgreSQL advisory lock of the process that migrates


def prepare() -> list[str]:
    """Checks the database and brings its tables up to date: always on SQLite, on PostgreSQL only
    with CRAWLFRAME_AUTO_MIGRATE=1. Returns the warnings of the checks. Raises ConfigError."""
    try:
        warnings = check_database(connection)
        if connection.vendor == "sqlite":
            _make_file(Path(connection.settings_dict["NAME"]))
        if is_behind():
            if connection.vendor != "sqlite" and not settings.AUTO_MIGRATE:
                raise TablesMissing(
                    f"the database lacks tables of this version; run: {command('migrate')} "
                    "(or set CRAWLFRAME_AUTO_MIGRATE=1)"
                )
            with one_migrates():
                call_command("migrate", interactive=False, verbosity=0)
    except (DatabaseError, NotSupportedError, OSError) as error:
        raise ConfigError(_in_plain_words(error)) from None
    return warnings


def _make_file(path: Path) -> None:
    """Makes the file of a first start under another name, and renames it at the end: Django records
    migrations outside of the transactions that make their tables, so a process killed in between
    would leave a file that cannot be migrated any more."""
    if path.exists():
        return
    aside = path.with_name(f"{path.name}.new")
    with one_migrates():
        if path.exists():  # it has never been opened before
            return
        for part in ("", "-wal", "-shm", "-journal"):  # of a first start that was killed
            Path(f"{aside}{part}").unlink(missing_ok=True)
        connections.settings[ASIDE] = {**connection.settings_dict, "NAME": aside}
        try:
            call_command("migrate", database=ASIDE, interactive=False, verbosity=0)
        finally:
            connections[ASIDE].close()
            del connections[ASIDE], connections.settings[ASIDE]
        aside.rename(path)


def migrations(alias: str = DEFAULT_DB_ALIAS) -> str:
    """A mark that changes with every migration that is applied or reverted. Raises
    django.db.Error."""
    applied = MigrationRecorder(connections[alias]).migration_qs
    return "{last}/{n}".format(**applied.aggregate(last=Max("id"), n=Count("id")))


def is_there() -> bool:
    """Whether the database exists: connecting to a missing SQLite file would create it."""
    return connection.vendor != "sqlite" or Path(connection.settings_dict["NAME"]).exists()


def is_behind() -> bool:
    executor = MigrationExecutor(connection)
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))


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


@contextmanager
def one_migrates() -> Iterator[None]:
    """Of two processes, the second waits and then finds nothing to migrate."""
    if connection.vendor == "sqlite":
        with Path(f"{connection.settings_dict['NAME']}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [MIGRATION_LOCK])
        try:
            yield
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [MIGRATION_LOCK])


def hint(reason: str) -> str:
    """The fix for a failure of the database, to append to its ``reason``; "" if unknown."""
    mends = MENDS.get(connection.vendor, {}).items()
    return next((f"; {what}" for words, what in mends if re.search(words, reason)), "")


def _in_plain_words(error: Exception) -> str:
    reason = " ".join(str(error).split())
    database = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"the SQLite database {database['NAME']} cannot be used: {reason}{hint(reason)}"
    server = database["HOST"] or database["OPTIONS"].get("host") or "localhost"
    where = f"the database {database['NAME']} on {server}"
    if isinstance(error, OperationalError):
        told = hint(reason) or "; start it or correct DATABASE_URL"
        return f"{where} cannot be reached: {reason}{told}"
    return f"{where} cannot be used: {reason}{hint(reason)}"
