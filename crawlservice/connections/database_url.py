"""DATABASE_URL: which database to open, and how. Only settings.py calls this."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dj_database_url

from crawlframe.errors import ConfigError

SQLITE_OPTIONS = {
    "timeout": 20,  # seconds to wait for another writer
    # A transaction that reads first and writes later would fail at once instead of waiting.
    "transaction_mode": "IMMEDIATE",
    # FULL: a commit must be on the disk before Redis learns of it. With NORMAL, a power cut could
    # take back ledger rows that Redis, whose file is synced separately, already counts as done.
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL",
}
POSTGRES_OPTIONS = {
    "connect_timeout": 10,  # seconds
    # A network that falls silent is noticed within a minute instead of hours.
    "keepalives_idle": 30,  # seconds
    "keepalives_interval": 10,  # seconds
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,  # milliseconds
}
OTHER_TIMEOUT = 3  # seconds for a connection to another database; chores of the node wait for it


def database_config(url: str, var_dir: Path, application: str) -> dict[str, Any]:
    """Django's settings for a database URL; "" is the SQLite file under ``var_dir``. PostgreSQL
    shows ``application`` in its list of connections. Raises ConfigError."""
    if not url:
        return _sqlite(_default_file(var_dir), {})
    return _config("DATABASE_URL", url, application)


def other_database_config(name: str, url: str, application: str) -> dict[str, Any]:
    """The same for a database that has only tables of the team's apps. ``name``: of the setting, in
    messages. Raises ConfigError."""
    return _config(name, url, application, connect_timeout=OTHER_TIMEOUT)


def _config(name: str, url: str, application: str, **postgres: int) -> dict[str, Any]:
    """``postgres``: options for PostgreSQL in place of ours."""
    try:
        parsed: dict[str, Any] = dict(dj_database_url.parse(url))
    except ValueError:
        parsed = {"ENGINE": "", "NAME": ""}
    engine, database, options = parsed["ENGINE"], parsed["NAME"], parsed.get("OPTIONS", {})
    if engine == "django.db.backends.postgresql" and database:
        from crawlservice.connections.watchdog import Connection, Cursor  # SQLite needs no psycopg2

        watched = {"connection_factory": Connection, "cursor_factory": Cursor}
        ours = {**POSTGRES_OPTIONS, **postgres, **watched, "application_name": application}
        options = {**ours, **options}
        return {**parsed, "CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True, "OPTIONS": options}
    if engine == "django.db.backends.sqlite3" and database != ":memory:":
        return _sqlite(Path(database).absolute(), options)
    shown = url.partition("://")[0] + "://…" if "://" in url else url  # it may hold a password
    default = ", or none for a SQLite file under var/" if name == "DATABASE_URL" else ""
    raise ConfigError(
        f"{name}={shown!r} cannot be used; give postgresql://user:password@host:5432/name or "
        f"sqlite:////absolute/path.sqlite3{default}"
    )


def _sqlite(path: Path, options: dict[str, Any]) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "OPTIONS": {**SQLITE_OPTIONS, **options},
    }


def _default_file(var_dir: Path) -> Path:
    try:
        var_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"the database cannot be kept in {var_dir}: {error}; name a directory this user may "
            "write in CRAWLFRAME_VAR_DIR, or set DATABASE_URL"
        ) from None
    return var_dir / "crawlframe.sqlite3"
