"""Bodies: reads the kept bodies of pages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TypeVar

from crawlframe.errors import PageDamaged, StoreError
from crawlframe.pages.stored import digest_of, unpack
from crawlframe.warc import CapturePlace
from crawlservice.models import PageBody
from crawlservice.pages.archived import opened

T = TypeVar("T")
MOST_BYTES = 16 << 20  # of bodies at a time, unless one has more


def batches(rows: Iterable[tuple[T, int]], most: int) -> Iterator[list[T]]:
    """Yields up to ``most`` things at a time, so few that their bodies can be in memory together.
    ``rows``: each thing with the bytes of its body."""
    batch: list[T] = []
    total = 0
    for thing, size in rows:
        if batch and (len(batch) == most or total + size > MOST_BYTES):
            yield batch
            batch, total = [], 0
        batch.append(thing)
        total += size
    if batch:
        yield batch


def read(numbers: Collection[int]) -> dict[int, bytes]:
    """The bodies of these numbers. Raises PageDamaged, StoreError if their segment cannot be read,
    and django.db.Error."""
    rows = PageBody.objects.filter(pk__in=numbers)
    columns = rows.values_list("pk", "digest", "size", "data", "segment__name", "offset", "length")
    found: dict[int, bytes] = {}
    places: dict[int, CapturePlace] = {}
    digests = {}
    for number, digest, size, data, segment, offset, length in columns:
        digests[number] = bytes(digest)
        if segment is not None:
            places[number] = CapturePlace(segment, offset or 0, length or 0)
        else:
            found[number] = unpack(bytes(data or b""), size)
    if places:
        records = opened(next(iter(places.values())).segment).read_all(places.values())
        found |= {number: records[place].payload for number, place in places.items()}
    for number, body in found.items():
        if digest_of(body) != digests[number]:
            raise PageDamaged(f"the body {number} of a kept page differs from the stored one")
    return found


def read_each(
    numbers: Collection[int],
) -> tuple[dict[int, bytes], dict[int, PageDamaged | StoreError]]:
    """The bodies that can be read, and why the others cannot. Raises django.db.Error."""
    try:
        return read(numbers), {}
    except (PageDamaged, StoreError) as error:
        if len(numbers) == 1:
            return {}, dict.fromkeys(numbers, error)
    found: dict[int, bytes] = {}
    unreadable: dict[int, PageDamaged | StoreError] = {}
    for number in numbers:
        one, problem = read_each([number])
        found |= one
        unreadable |= problem
    return found, unreadable
