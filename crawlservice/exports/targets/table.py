"""Table: batches as rows of a table in another database, each batch in one transaction. The key of
a row decides, so an attempt that is repeated changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Annotated, Any, Literal

from django.utils.translation import gettext_lazy as _
from pydantic import Field

from crawlframe.base import faults
from crawlframe.conf import Settings
from crawlservice.exports.addresses import Address, BadExport, host_of, options_of, parts_of
from crawlservice.exports.dialects import ROWS, Dialect, connect
from crawlservice.exports.source import KEY
from crawlservice.exports.target import (
    BatchName,
    ExportBatch,
    FormField,
    Limits,
    Target,
    TargetError,
    TargetKind,
    Text,
    Writer,
)
from crawlservice.tasks.results.column_types import Kind, Kinds

COLUMNS = 500  # most columns of a table
VALUES = 20_000  # most values of one statement
# Database -> options that its address may have. Others could name a password, which would be
# shown, or a file of the node.
_POSTGRES = ("channel_binding", "sslmode", "sslrootcert", "target_session_attrs")
DATABASES = {"postgresql": _POSTGRES, "postgres": _POSTGRES, "mysql": ("ssl",), "mariadb": ("ssl",)}


class TableTarget(Target):
    """A table of another database. `url` is `postgresql://user:password@host:5432/database` or
    `mysql://…`; the table is made if there is none, and gets a column for each field."""

    SECRETS = ("url",)

    kind: Literal["table"]
    url: Annotated[
        Text,
        Field(min_length=1),
        FormField(_("Address"), _("postgresql://user:password@host:5432/database or mysql://…")),
    ]
    table: Annotated[
        str,
        Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$"),
        FormField(_("Table"), _("it is made if there is none")),
    ]

    def check(self) -> None:
        parts = parts_of("target.url", self.url)
        if parts.scheme not in DATABASES or not parts.hostname or len(parts.path) < 2:
            raise BadExport(
                "target.url", "write postgresql://user:password@host/database or mysql://…"
            )
        allowed = DATABASES[parts.scheme]
        if refused := sorted(options_of(self.url).keys() - {*allowed}):
            raise BadExport(
                "target.url",
                f"the option {refused[0]} cannot be used here, only {', '.join(allowed)}",
            )

    @property
    def destination(self) -> Address:
        return self.kind, host_of(self.url)

    def open(self, node: Settings, installation: str) -> Writer:
        return TableWriter(self)

    @classmethod
    def place(cls, shown: Mapping[str, Any]) -> str:
        return f"{shown['url']} {shown['table']}"


class TableWriter:
    limits = Limits(rows=1000, bytes=8 << 20, columns=COLUMNS)

    def __init__(self, target: TableTarget) -> None:
        self._target = target
        self._dialect: Dialect | None = None

    def send(self, name: BatchName, batch: ExportBatch) -> str:
        dialect, table = self._open(), self._target.table
        columns = names(batch.kinds, dialect.longest)
        kinds = fit(dialect, table, {columns[field]: kind for field, kind in batch.kinds.items()})
        fields = [field for field in columns if columns[field] in kinds]
        placed = [columns[field] for field in fields]
        step = max(1, min(ROWS, VALUES // len(placed)))
        for chunk in batch.chunks():
            rows = iter(chunk)
            while some := [*islice(rows, step)]:
                values = [
                    [dialect.value(row.get(f), kinds[columns[f]]) for f in fields] for row in some
                ]
                dialect.upsert(table, placed, values)
        faults.at("export.write.before")
        dialect.commit()
        faults.at("export.write.after")
        return f"{table}: {batch.rows:,} rows, to {name.last}"

    def test(self, name: BatchName, empty: ExportBatch) -> None:
        """Makes the table, as the first batch would, and inserts no row into it."""
        dialect, table = self._open(), self._target.table
        fit(dialect, table, {})
        place, key = dialect.place(table), dialect.quoted(KEY)
        dialect.execute(f"INSERT INTO {place} ({key}) SELECT {key} FROM {place} WHERE 1 = 0")

    def _open(self) -> Dialect:
        if self._dialect is None:
            self._dialect = connect(self._target.url)
        return self._dialect

    def close(self) -> None:
        if self._dialect is not None:
            self._dialect.close()
        self._dialect = None


def names(fields: Iterable[str], longest: int) -> dict[str, str]:
    """Field -> column. Two fields never share one, also where case does not count; as fields are
    only added at the end, each keeps its column."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for field in fields:
        text = _cut(field.replace("\0", "") or "_", longest)
        column, number = text, 1
        while column.casefold() in taken:
            number += 1
            end = f"_{number}"
            column = _cut(text, longest - len(end)) + end
        taken.add(column.casefold())
        found[field] = column
    return found


def fit(dialect: Dialect, table: str, wanted: Kinds) -> Kinds:
    """Makes the table, and extends it so that it has these columns. Returns the kind of each of
    them; one that had no value yet is left out. Raises TargetError."""
    known = dialect.columns(table)
    if not known:
        dialect.create(table, KEY)
        known = dialect.columns(table)
    if dialect.key(table) != [KEY]:
        raise TargetError(
            f"table {table} is not one of an export: its primary key is not {KEY}; name another "
            "table, which is made"
        )
    if len(known.keys() | wanted.keys()) > COLUMNS:
        raise TargetError(
            f"table {table} would have more than {COLUMNS} columns; choose fields of the export"
        )
    found: Kinds = {}
    for column, kind in wanted.items():
        has = known.get(column)
        if has is None:
            if not kind:
                continue
            dialect.add(table, column, kind)
            has = kind
        elif (wider := _wider(has, kind)) != has:
            dialect.widen(table, column, wider)
            has = wider
        found[column] = has
    dialect.commit()
    return found


def _wider(has: Kind, kind: Kind) -> Kind:
    """The kind of a column of kind ``has`` that takes values of ``kind``, too. A type that we do
    not make stays: the database says if a value does not fit."""
    if has in ("", "text", "json", kind) or not kind or (has, kind) == ("number", "integer"):
        return has
    return "number" if (has, kind) == ("integer", "number") else "text"


def _cut(text: str, longest: int) -> str:
    return text.encode()[:longest].decode(errors="ignore")


TARGET = TargetKind("table", _("table: PostgreSQL, MySQL"), TableTarget)
