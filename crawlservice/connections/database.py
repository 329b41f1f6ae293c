"""The database: its checks, and its tables brought up to date, once, before a command uses them."""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules

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
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Count, Max

from crawlframe.base.mounts import network_filesystem
from crawlframe.base.program import command
from crawlframe.errors import ConfigError, TablesMissing
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
OLDEST_SQLITE = (3, 35)  # the first with RETURNING
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


def check_database(connection: BaseDatabaseWrapper) -> list[str]:
    """The warnings about the database. Raises ConfigError, and DatabaseError if it is away."""
    if connection.vendor == "sqlite":
        _check_sqlite(Path(connection.settings_dict["NAME"]))
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('fsync'), current_setting('synchronous_commit'),"
            " current_setting('server_encoding'), pg_is_in_recovery(),"
            " current_setting('default_transaction_read_only')"
        )
        fsync, commit, encoding, replica, read_only = cursor.fetchone()
    if replica or read_only == "on":
        raise ConfigError(
            "the database accepts no writes (a replica or read-only); let DATABASE_URL name the "
            "primary"
        )
    if encoding != "UTF8":
        raise ConfigError(
            f"the database has the encoding {encoding}, which cannot hold every page; create it "
            "with ENCODING 'UTF8'"
        )
    name = {"fsync": fsync, "synchronous_commit": commit}
    return [
        f"PostgreSQL runs with {setting} = off: a power cut may lose finished work for good; "
        f"set {setting} = on"
        for setting, value in name.items()
        if value == "off"
    ]


def _check_sqlite(path: Path) -> None:
    import sqlite3

    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise ConfigError(
            f"SQLite {sqlite3.sqlite_version} is too old; use a Python with 3.35 or newer, or "
            "PostgreSQL through DATABASE_URL"
        )
    if filesystem := network_filesystem(path.parent):
        raise ConfigError(
            f"SQLite cannot work safely on the network file system ({filesystem}) of {path}; name "
            "a local directory in CRAWLFRAME_VAR_DIR, or PostgreSQL in DATABASE_URL"
        )


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
    """Whether it lacks a migration. Raises django.db.Error."""
    # Most often it has all that there are. Their graph imports them, which takes longer than most
    # commands.
    if MigrationRecorder(connection).applied_migrations().keys() >= {*_migration_names()}:
        return False
    executor = MigrationExecutor(connection)
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def _migration_names() -> Iterator[tuple[str, str]]:
    """The app and the name of each migration that is installed."""
    for app in apps.get_app_configs():
        folder, _ = MigrationLoader.migrations_module(app.label)
        if folder is not None and find_spec(folder):
            for module in iter_modules(import_module(folder).__path__):
                yield app.label, module.name


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
