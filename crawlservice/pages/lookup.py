"""Lookup: finds kept pages for workers."""

from __future__ import annotations

import logging
from collections.abc import Collection
from uuid import UUID

from django.db.models import Max

from crawlframe.errors import PageDamaged, StoreError
from crawlframe.stored_page import StoredPage
from crawlservice.connections import clock
from crawlservice.models import KeptPage, PageBody
from crawlservice.pages.bodies import read

log = logging.getLogger(__name__)


def latest(keys: Collection[bytes]) -> dict[bytes, StoredPage]:
    """As Ledger.kept_pages. Raises django.db.Error."""
    rows = KeptPage.objects.filter(key__in=[*keys]).order_by()
    numbers = [n for _, n in rows.values_list("key").annotate(last=Max("pk"))]
    if not numbers:
        return {}
    now = clock.now()
    columns = (
        "key", "pk", "rid", "url", "status", "headers", "address", "etag", "modified", "fetched_at",
        "body", "body__digest", "signature",
    )  # fmt: skip
    found = {}
    for row in KeptPage.objects.filter(pk__in=numbers).values_list(*columns):
        key, number, rid, url, status, headers, address, etag, modified, fetched_at, *rest = row
        body, digest, signature = rest
        found[bytes(key)] = StoredPage(
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
            bytes(signature or b""),
        )
    return found


def bodies(numbers: Collection[int]) -> dict[int, bytes]:
    """As Ledger.page_bodies. Raises django.db.Error."""
    try:
        return read(numbers)
    except (PageDamaged, StoreError) as error:
        if len(numbers) == 1:
            log.warning("a page is fetched again: %s", error)
            return {}
        return {n: body for one in numbers for n, body in bodies([one]).items()}


def same_content(pages: Collection[tuple[int, bytes, bytes]]) -> dict[bytes, str]:
    """As Ledger.same_content. Raises django.db.Error."""
    digests = {digest for _, _, digest in pages}
    numbers = {
        bytes(digest): n
        for n, digest in PageBody.objects.filter(digest__in=digests).values_list("pk", "digest")
    }
    found = {}
    for task, rid, digest in pages:
        if digest not in numbers:
            continue
        rows = KeptPage.objects.filter(task=task, body=numbers[digest], reason="")
        others = rows.exclude(rid=UUID(bytes=rid)).order_by("pk")
        if url := others.values_list("url", flat=True).first():
            found[rid] = url
    return found
