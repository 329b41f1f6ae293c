"""Bodies: reads what is kept of pages."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from crawlframe.errors import PageDamaged
from crawlframe.pages.packing import digest_of, unpack
from crawlframe.warc import Place
from crawlservice.models import PageBody, PageDictionary
from crawlservice.pages.archived import opened


def read(numbers: Collection[int]) -> dict[int, bytes]:
    """The bodies of these numbers. Raises PageDamaged, StoreError if their segment cannot be read,
    and django.db.Error."""
    rows = PageBody.objects.filter(pk__in=numbers)
    columns = rows.values_list(
        "pk", "digest", "size", "data", "dictionary", "segment__name", "offset", "length"
    )
    found = {}
    for number, digest, size, data, dictionary, segment, offset, length in columns:
        if segment is not None:
            place = Place(segment, offset or 0, length or 0)
            body = opened(segment).read(place).payload
        else:
            body = unpack(bytes(data or b""), size, _dictionary(dictionary) if dictionary else b"")
        if digest_of(body) != bytes(digest):
            raise PageDamaged(f"the body {number} of a kept page is not what was stored")
        found[number] = body
    return found


@lru_cache(maxsize=64)
def _dictionary(number: int) -> bytes:
    return bytes(PageDictionary.objects.values_list("content", flat=True).get(pk=number))
