"""Results: what the callbacks of kept pages led to, for pages that do not change."""

from __future__ import annotations

import msgpack

from crawlframe.base.exact_json import dumps
from crawlframe.errors import PageDamaged
from crawlframe.pages.packing import Packer, unpack
from crawlframe.pages.results import Results
from crawlframe.response.stored_page import StoredPage
from crawlservice.models import Item, KeptPage, Page

SIZE = 8  # bytes in front of the packed list: its size


def pack_requests(requests: list[bytes] | None) -> bytes:
    """Records of requests, as they are stored."""
    packed: bytes = msgpack.packb(requests or [])
    return len(packed).to_bytes(SIZE) + Packer().pack(packed)


def results_of(page: StoredPage) -> Results | None:
    """As PageLedger.results. Raises django.db.Error."""
    rows = KeptPage.objects.filter(pk=page.number).exclude(signature=None)
    kept = rows.values_list("rid", "follow_ups").first()
    if kept is None:
        return None
    rid, stored = kept
    done = Page.objects.filter(rid=rid, state=Page.State.DONE).values_list("items", flat=True)
    items = Item.objects.filter(rid=rid).order_by("ordinal").values_list("data", flat=True)
    found = [dumps(data) for data in items]
    if done.first() != len(found):
        return None
    try:
        data = bytes(stored or b"")
        requests = msgpack.unpackb(unpack(data[SIZE:], int.from_bytes(data[:SIZE])))
    except (PageDamaged, ValueError):
        return None
    return Results(found, requests)
