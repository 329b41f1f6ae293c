"""Lookup: finds kept pages for workers."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from uuid import UUID

from django.db import connection as default_connection

from crawlframe.response.stored_page import StoredPage
from crawlservice.connections import clock
from crawlservice.models import KeptPage, Page
from crawlservice.pages.bodies import read_each

log = logging.getLogger(__name__)

# One row of the index per key, however many pages have it.
NEWEST = f"""
SELECT newest.id FROM unnest(%s::bytea[]) AS asked(key), LATERAL (
    SELECT id FROM {KeptPage._meta.db_table} AS page WHERE page.key = asked.key
    ORDER BY fetched_at DESC, id DESC LIMIT 1
) AS newest
"""


def latest(keys: Collection[bytes]) -> dict[bytes, StoredPage]:
    """As PageLedger.latest. Raises django.db.Error."""
    numbers = _newest([*keys])
    return dict(stored(numbers)) if numbers else {}


def stored(numbers: Collection[int]) -> Iterator[tuple[bytes, StoredPage]]:
    """Kept pages of these numbers, with their keys. Raises django.db.Error."""
    now = clock.now()
    columns = (
        "key", "pk", "rid", "url", "status", "headers", "address", "etag", "modified", "fetched_at",
        "body", "body__digest", "body__size", "signature",
    )  # fmt: skip
    for row in KeptPage.objects.filter(pk__in=numbers).values_list(*columns):
        key, number, rid, url, status, headers, address, etag, modified, fetched_at, *rest = row
        body, digest, size, signature = rest
        yield (
            bytes(key or b""),
            StoredPage(
                number,
                rid.bytes,
                url,
                status,
                headers,
                address,
                etag,
                modified,
                fetched_at.timestamp(),
                max(0.0, (now - fetched_at).total_seconds()),
                body,
                bytes(digest),
                size,
                bytes(signature or b""),
            ),
        )


def _newest(keys: list[bytes]) -> list[int]:
    """The page that was fetched last of each key."""
    if default_connection.vendor == "postgresql":
        with default_connection.cursor() as cursor:
            cursor.execute(NEWEST, [keys])
            return [number for (number,) in cursor.fetchall()]
    rows = KeptPage.objects.order_by("-fetched_at", "-pk").values_list("pk", flat=True)
    found = (rows.filter(key=key).first() for key in keys)
    return [number for number in found if number is not None]


def bodies(numbers: Collection[int]) -> dict[int, bytes]:
    """As PageLedger.bodies. Raises django.db.Error."""
    found, unreadable = read_each(numbers)
    for error in unreadable.values():
        log.warning("a page is fetched again: %s", error)
    return found


def urls_of(beginnings: Collection[bytes], task: int) -> dict[bytes, str]:
    """As Ledger.urls_of. Raises django.db.Error."""
    rows = Page.objects.filter(task=task) if task else Page.objects.all()
    found = {}
    for beginning in beginnings:
        first, last = (UUID(bytes=beginning.ljust(16, end)) for end in (b"\0", b"\xff"))
        some = rows.filter(rid__range=(first, last)).order_by("rid")
        if (url := some.values_list("url", flat=True).first()) is not None:
            found[beginning] = url
    return found
