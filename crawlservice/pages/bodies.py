"""Bodies: reads what is kept of pages."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from crawlframe.errors import PageDamaged
from crawlframe.pages.packing import digest_of, unpack
from crawlservice.models import PageBody, PageDictionary


def read(numbers: Collection[int]) -> dict[int, bytes]:
    """The bodies of these numbers. Raises PageDamaged, StoreError if their segment cannot be read,
    and django.db.Error."""
    rows = PageBody.objects.filter(pk__in=numbers)
    columns = rows.values_list("pk", "digest", "size", "data", "dictionary")
    found = {}
    for number, digest, size, data, dictionary in columns:
        content = _dictionary(dictionary) if dictionary else b""
        body = unpack(bytes(data or b""), size, content)
        if digest_of(body) != bytes(digest):
            raise PageDamaged(f"the body {number} of a kept page is not what was stored")
        found[number] = body
    return found


@lru_cache(maxsize=64)
def _dictionary(number: int) -> bytes:
    return bytes(PageDictionary.objects.values_list("content", flat=True).get(pk=number))
