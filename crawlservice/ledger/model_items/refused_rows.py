"""Refused rows: why the database does not take a model item, with the field if it is known."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from django.core.exceptions import ValidationError
from django.db import (
    DataError,
    Error,
    IntegrityError,
    NotSupportedError,
    ProgrammingError,
    connections,
    router,
)
from django.db.models import Model

from crawlframe.run.ledger import TablesChanged
from crawlservice.connections.contained import exceeds_limit

KEY = re.compile(r"Key \(([^)]*)\)=")  # in the details of PostgreSQL's errors
SQLITE_FAILED = re.compile(r"constraint failed: (.*)")
SQLITE_LACKS = re.compile(r"no such (table|column)|has no column named")


class RowRefused(ValueError):
    """The message names the model, and the field if it is known."""


def named(error: Exception, instances: list[Any]) -> Exception:
    """The error to be raised in place of one that saving these instances of one model raised: a
    RowRefused, or the same if another attempt may succeed."""
    if isinstance(error, RowRefused) or (isinstance(error, Error) and not _is_final(error)):
        return error
    model = type(instances[0])
    field = _field_in(error, model) or _invalid(instances)
    return RowRefused(f"{model._meta.label}{f'.{field}' if field else ''}: {reason_of(error)}")


def reason_of(error: Exception) -> str:
    """The message of a database error, in one line."""
    text = " ".join(error.messages) if isinstance(error, ValidationError) else str(error)
    return " ".join(text.split()) or type(error).__name__


def _is_final(error: Error) -> bool:
    """Whether another attempt fails, too. SQLite reports missing tables and columns as operational
    errors."""
    refused = isinstance(error, DataError | IntegrityError | ProgrammingError | NotSupportedError)
    return refused or exceeds_limit(error) or bool(SQLITE_LACKS.search(str(error)))


def _field_in(error: Exception, model: type[Model]) -> str:
    """The fields that the database names."""
    told = getattr(error.__cause__, "diag", None)
    if key := KEY.match(getattr(told, "message_detail", None) or ""):
        columns = key[1].split(", ")
    elif failed := SQLITE_FAILED.search(str(error)):
        columns = [column.rpartition(".")[2] for column in failed[1].split(", ")]
    else:
        columns = [getattr(told, "column_name", None)]
    names = [field.name for field in model._meta.concrete_fields if field.column in columns]
    return ", ".join(names)


def _invalid(instances: list[Any]) -> str:
    """The first field whose value its own validators refuse: the database has not named any."""
    for one in instances:
        for field in one._meta.concrete_fields:
            value = getattr(one, field.attname)
            if field.is_relation or value in field.empty_values:
                continue
            try:
                field.clean(value, one)
            except Exception:  # a validator of the author's may raise anything
                return str(field.name)
    return ""


def check_tables(models: Iterable[type[Model]]) -> None:
    """Raises TablesChanged if a table has other columns than its model needs. Call it outside of a
    transaction."""
    for model in models:
        table, connection = model._meta.db_table, connections[router.db_for_write(model)]
        with connection.cursor() as cursor:
            tables = connection.introspection.table_names(cursor)
            columns = (
                connection.introspection.get_table_description(cursor, table)
                if table in tables
                else []
            )
        there = {str(column.name) for column in columns}
        wanted = {str(field.column) for field in model._meta.concrete_fields}
        needs = {
            str(one.name) for one in columns if not one.null_ok and one.default in (None, "NULL")
        }
        problems = [
            f"{word} {', '.join(sorted(names))}"
            for word, names in (("lacks", wanted - there), ("requires", needs - wanted))
            if names
        ]
        if problems:
            raise TablesChanged(
                f"the table {table} {' and '.join(problems)}, unlike the model {model._meta.label} "
                "of this code; the page waits for the code that the table was migrated for"
            )
