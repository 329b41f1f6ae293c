"""Stored: whether a run has stored exactly the rows of the site, each once."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from decimal import Decimal
from typing import Any

import psycopg2

from benchmarks.standard.site import Row, Site

TABLE = """
CREATE TABLE row (url text PRIMARY KEY, title text, h1 text, price numeric, date date,
                  author text, links int)
"""
ROWS = "SELECT url, title, h1, price, date::text, author, links FROM row"
ITEMS = "SELECT data FROM crawlservice_item"
LEDGER = "SELECT state, count(*), count(DISTINCT url) FROM crawlservice_page GROUP BY state"
TASK = "SELECT state, na, nf, ne, items FROM crawlservice_task"


class Wrong(Exception):
    """The stored rows are not the expected ones; the message names a row."""


def make_table(dsn: str) -> None:
    """The table that contenders fill."""
    with closing(psycopg2.connect(dsn)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(TABLE)


def check_table(dsn: str, site: Site) -> None:
    """Checks the table of a contender. Raises Wrong."""
    compare([Row(*row) for row in _query(dsn, ROWS)], site)


def check_items(dsn: str, site: Site) -> None:
    """Checks the items, the ledger and the counters of Crawlframe. Raises Wrong."""
    compare([_row(item) for (item,) in _query(dsn, ITEMS)], site)
    requests = site.pages + 1  # with the request of the spider's start
    ledger = _query(dsn, LEDGER)
    if ledger != [("done", requests, requests)]:
        raise Wrong(f"the ledger has (state, rows, URLs) {ledger}, not {requests} done")
    task = _query(dsn, TASK)
    if task != [("finished", requests, requests, 0, site.pages)]:
        raise Wrong(f"the task's row has (state, NA, NF, NE, items) {task}")


def compare(found: list[Row], site: Site) -> None:
    """Raises Wrong unless these are the rows of the site, in any order."""
    times = Counter(row.url for row in found)
    twice = [url for url, count in times.items() if count > 1]
    if twice:
        raise Wrong(f"{len(twice)} pages are stored more than once, such as {twice[0]}")
    wanted = {row.url: row for row in site.rows()}
    if strangers := sorted(times.keys() - wanted.keys()):
        raise Wrong(f"{len(strangers)} rows are of no page of the site, such as {strangers[0]}")
    if missing := sorted(wanted.keys() - times.keys()):
        raise Wrong(f"{len(missing)} of {site.pages} pages are not stored, such as {missing[0]}")
    for row in found:
        if problem := _difference(row, wanted[row.url]):
            raise Wrong(f"{row.url}: {problem}")


def _difference(row: Row, wanted: Row) -> str:
    for name, value, right in zip(Row._fields, row, wanted, strict=True):
        if value != right:
            return f"{name} is stored as {value!r}, the page has {right!r}"
    return ""


def _row(item: dict[str, Any]) -> Row:
    """The row of an item, with the numbers of JSON."""
    if item.keys() != set(Row._fields):
        raise Wrong(f"an item has the fields {sorted(item)}")
    price = item["price"]
    return Row(**{**item, "price": Decimal(str(price)) if isinstance(price, float) else price})


def _query(dsn: str, statement: str) -> list[tuple[Any, ...]]:
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())
