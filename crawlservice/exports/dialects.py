"""Dialects: the SQL of PostgreSQL and MySQL for the table of an export."""

from __future__ import annotations

import json
import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import closing
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

from crawlservice.exports.addresses import options_of
from crawlservice.exports.target import address_of, need
from crawlservice.tasks.results.column_types import Kind

TIMEOUT = 15  # seconds to connect
STATEMENT_TIMEOUT = 120  # seconds of one statement
ROWS = 500  # rows of one statement
NO_FILE = "/dev/null/none"  # a path where no file can be

Rows = Sequence[Sequence[Any]]


class Dialect(ABC):
    """One connection. A failing statement raises ``Failed``."""

    types: ClassVar[dict[Kind, str]]
    longest: ClassVar[int]  # bytes of a name

    def __init__(self) -> None:
        self.Failed: type[Exception]
        self._connection: Any

    def upsert(self, table: str, columns: Sequence[str], rows: Rows) -> None:
        """Inserts rows, or replaces those with the same first column, in the transaction."""
        names = [self.quoted(name).replace("%", "%%") for name in columns]
        marks = f"({', '.join(['%s'] * len(names))})"
        statement = (
            f"INSERT INTO {self.place(table)} ({', '.join(names)}) VALUES "
            f"{', '.join([marks] * len(rows))} {self.replacing(names)}"
        )
        self.execute(statement, [value for row in rows for value in row])

    @abstractmethod
    def replacing(self, names: Sequence[str]) -> str:
        """The end of an INSERT that replaces a row whose first column is there already. ``names``
        are quoted."""

    @abstractmethod
    def widen(self, table: str, column: str, kind: Kind) -> None:
        """Changes the type of a column that has rows."""

    @abstractmethod
    def value(self, value: Any, kind: Kind) -> Any:
        """The value as the driver takes it, for a column of this kind; "" is a type that we do not
        make."""

    @abstractmethod
    def columns(self, table: str) -> dict[str, Kind]:
        """Columns of the table, with "" for types that we do not make; empty: there is none."""

    @abstractmethod
    def key(self, table: str) -> list[str]:
        """The columns of its primary key."""

    def quoted(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def place(self, table: str) -> str:
        """``schema.table``, quoted."""
        return ".".join(map(self.quoted, table.split(".")))

    def create(self, table: str, key: str) -> None:
        self.execute(
            f"CREATE TABLE IF NOT EXISTS {self.place(table)} "
            f"({self.quoted(key)} varchar(64) NOT NULL PRIMARY KEY){self.suffix}"
        )

    suffix: ClassVar[str] = ""

    @abstractmethod
    def add(self, table: str, column: str, kind: Kind) -> None:
        """Adds a column, unless another node just did."""

    def execute(self, statement: str, values: Sequence[Any] | None = None) -> list[Any]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement, values)
            return [*cursor.fetchall()] if cursor.description else []

    def commit(self) -> None:
        self._connection.commit()

    def close(self) -> None:
        try:
            self._connection.close()
        except Exception:  # it was broken before
            return


class Postgres(Dialect):
    types = {
        "text": "text", "integer": "bigint", "number": "double precision", "boolean": "boolean",
        "json": "jsonb",
    }  # fmt: skip
    longest = 63
    KINDS: ClassVar[dict[str, Kind]] = {
        "text": "text", "character varying": "text", "bigint": "integer",
        "double precision": "number", "boolean": "boolean", "jsonb": "json",
    }  # fmt: skip

    def __init__(self, url: str) -> None:
        import psycopg2

        super().__init__()
        self.Failed = psycopg2.Error
        parts = urlsplit(url)
        host = unquote(parts.hostname or "")
        directory = host.startswith("/")  # of a socket of this machine
        address = address_of("127.0.0.1" if directory else host)
        self._connection = psycopg2.connect(
            parts._replace(scheme="postgresql").geturl(),
            # Given, so that keys of the node's environment and home are not sent to any host.
            hostaddr=None if directory else address,
            password=unquote(parts.password or ""),
            passfile=NO_FILE,
            connect_timeout=TIMEOUT,
            application_name="crawlframe export",
            keepalives_idle=30,
            tcp_user_timeout=1000 * STATEMENT_TIMEOUT,
        )
        self.execute(f"SET statement_timeout = '{STATEMENT_TIMEOUT}s'; SET lock_timeout = '30s'")
        self.commit()

    def replacing(self, names: Sequence[str]) -> str:
        news = ", ".join(f"{name} = EXCLUDED.{name}" for name in names[1:])
        return f"ON CONFLICT ({names[0]}) DO UPDATE SET {news}"

    def widen(self, table: str, column: str, kind: Kind) -> None:
        name, kind_name = self.quoted(column), self.types[kind]
        self.execute("SET LOCAL statement_timeout = 0")  # it may write the whole table anew
        self.execute(
            f"ALTER TABLE {self.place(table)} ALTER COLUMN {name} TYPE {kind_name} "
            f"USING {name}::{kind_name}"
        )

    def value(self, value: Any, kind: Kind) -> Any:
        if value is None:
            return None
        if kind == "json":
            return json.dumps(value, ensure_ascii=False)
        if isinstance(value, dict | list) or (kind == "text" and not isinstance(value, str)):
            return json.dumps(value, ensure_ascii=False)
        return value

    def columns(self, table: str) -> dict[str, Kind]:
        rows = self.execute(
            "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute "
            "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
            [self.place(table)],
        )
        return {name: self.KINDS.get(kind, "") for name, kind in rows}

    def key(self, table: str) -> list[str]:
        rows = self.execute(
            "SELECT attname FROM pg_index JOIN pg_attribute ON attrelid = indrelid "
            "AND attnum = ANY(indkey) WHERE indisprimary AND indrelid = to_regclass(%s)",
            [self.place(table)],
        )
        return [name for (name,) in rows]

    def add(self, table: str, column: str, kind: Kind) -> None:
        self.execute(
            f"ALTER TABLE {self.place(table)} ADD COLUMN IF NOT EXISTS "
            f"{self.quoted(column)} {self.types[kind]}"
        )


class MySQL(Dialect):
    """MySQL and MariaDB. Lists and objects are JSON in a text column, as the JSON columns of the
    two differ. True and false are 1 and 0, in text columns too."""

    types = {
        "text": "longtext", "integer": "bigint", "number": "double", "boolean": "tinyint(1)",
        "json": "longtext",
    }  # fmt: skip
    longest = 64
    suffix = " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin ENGINE=InnoDB"
    KINDS: ClassVar[dict[str, Kind]] = {
        "longtext": "text", "varchar": "text", "bigint": "integer", "double": "number",
        "tinyint": "boolean",
    }  # fmt: skip

    def __init__(self, url: str) -> None:
        need("pymysql", "mysql")
        import pymysql

        super().__init__()
        self.Failed = pymysql.MySQLError
        self._url = url
        self._connection = self._connect(STATEMENT_TIMEOUT)
        # New columns are seen at once, in the same transaction.
        self.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        self.commit()

    def _connect(self, timeout: int | None) -> Any:
        """``timeout``: seconds to wait for the answer to a statement."""
        import pymysql

        url = self._url
        parts = urlsplit(url)
        secured = options_of(url).get("ssl") in ("1", "true")
        made = pymysql.connect(
            host=parts.hostname,
            user=unquote(parts.username or "") or None,
            password=unquote(parts.password or ""),
            database=unquote(parts.path.removeprefix("/")),
            ssl=ssl.create_default_context() if secured else None,
            charset="utf8mb4",
            connect_timeout=TIMEOUT,
            read_timeout=timeout,
            write_timeout=STATEMENT_TIMEOUT,
            sql_mode="TRADITIONAL",  # a value that does not fit is an error, and is not cut
            autocommit=False,
            defer_connect=True,
        )
        place = address_of(parts.hostname), parts.port or 3306
        made.connect(socket.create_connection(place, TIMEOUT))
        return made

    def quoted(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def replacing(self, names: Sequence[str]) -> str:
        news = ", ".join(f"{name} = VALUES({name})" for name in names[1:])
        return f"ON DUPLICATE KEY UPDATE {news}"

    def widen(self, table: str, column: str, kind: Kind) -> None:
        self.commit()
        # It may write the whole table anew, so it is waited for.
        with closing(self._connect(None)) as patient, patient.cursor() as cursor:
            cursor.execute(
                f"ALTER TABLE {self.place(table)} MODIFY COLUMN "
                f"{self.quoted(column)} {self.types[kind]}"
            )

    def value(self, value: Any, kind: Kind) -> Any:
        if isinstance(value, dict | list):
            return json.dumps(value, ensure_ascii=False)
        if isinstance(value, bool):
            return int(value)
        if kind in ("text", "json") and value is not None and not isinstance(value, str):
            return json.dumps(value)
        return value

    def columns(self, table: str) -> dict[str, Kind]:
        rows = self.execute(
            "SELECT column_name, data_type FROM information_schema.columns "
            "WHERE table_schema = COALESCE(%s, DATABASE()) AND table_name = %s",
            _parts(table),
        )
        return {name: self.KINDS.get(kind, "") for name, kind in rows}

    def key(self, table: str) -> list[str]:
        rows = self.execute(
            "SELECT column_name FROM information_schema.key_column_usage "
            "WHERE table_schema = COALESCE(%s, DATABASE()) AND table_name = %s "
            "AND constraint_name = 'PRIMARY'",
            _parts(table),
        )
        return [name for (name,) in rows]

    def add(self, table: str, column: str, kind: Kind) -> None:
        try:
            self.execute(
                f"ALTER TABLE {self.place(table)} ADD COLUMN "
                f"{self.quoted(column)} {self.types[kind]}"
            )
        except self.Failed:
            if column not in self.columns(table):
                raise


def _parts(table: str) -> tuple[str | None, str]:
    schema, _, name = table.rpartition(".")
    return schema or None, name


def connect(url: str) -> Dialect:
    """Opens the connection of a URL. Raises writer.TargetError and the driver's errors."""
    if urlsplit(url).scheme in ("mysql", "mariadb"):
        return MySQL(url)
    return Postgres(url)
