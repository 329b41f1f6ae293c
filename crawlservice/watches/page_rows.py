"""Rows of watched pages are written here: one statement for all, several times as fast as
``bulk_update``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

from django.db import connection

from crawlservice.models import WatchedPage


def update(pages: Collection[WatchedPage], names: Sequence[str]) -> None:
    """Writes these fields of pages. Raises django.db.Error."""
    if not pages:
        return
    fields: list[Any] = [WatchedPage._meta.get_field(name) for name in names]
    rows = [
        [
            *(field.get_db_prep_save(getattr(page, field.attname), connection) for field in fields),
            page.pk,
        ]
        for page in pages
    ]
    with connection.cursor() as cursor:
        cursor.executemany(_statement(tuple(names)), rows)


@cache
def _statement(names: tuple[str, ...]) -> str:
    quoted = connection.ops.quote_name
    fields: list[Any] = [WatchedPage._meta.get_field(name) for name in names]
    columns = ", ".join(f"{quoted(field.column)} = %s" for field in fields)
    return f"UPDATE {WatchedPage._meta.db_table} SET {columns} WHERE id = %s"
