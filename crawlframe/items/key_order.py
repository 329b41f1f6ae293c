"""Key order: the order of the fields of an item. PostgreSQL's jsonb does not keep it: it sorts the
keys of each object, shorter ones first. So the order is stored with the item: a character for
each key of each object, for its place among the sorted ones."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any

FIRST, MAX_KEYS = 0x21, 50_000  # the character of place 0; keys of an object


def order_of(item: Any) -> str:
    """The order in an item; "" if it is jsonb's, or of an object with too many keys."""
    orders = [*_orders(item)]
    differs = any(order != _sorted(len(order)) for order in orders)
    return "".join(orders) if differs and len(max(orders, key=len)) <= MAX_KEYS else ""


def _orders(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield _places((*value,))
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, dict | list):
            yield from _orders(inner)


@lru_cache(maxsize=64)
def _sorted(keys: int) -> str:
    """The order of jsonb."""
    return "".join(map(chr, range(FIRST, FIRST + min(keys, MAX_KEYS))))


@lru_cache(maxsize=1024)
def _places(keys: tuple[str, ...]) -> str:
    ordered = sorted(keys, key=lambda key: (len(raw := key.encode()), raw))
    place = dict(zip(ordered, _sorted(len(keys)), strict=False))
    return "".join(place.get(key, "!") for key in keys)


def in_order(item: Any, order: str) -> Any:
    """The item of a row, which has the order of jsonb, in its own."""
    if not order:
        return item
    try:
        return _arranged(item, iter(order))
    except (IndexError, KeyError):  # one of the two has changed
        return item


def _arranged(value: Any, places: Iterator[str]) -> Any:
    if isinstance(value, dict):
        keys = [*value]
        own = [keys[ord(place) - FIRST] for place in islice(places, len(keys))]
        if len({*own}) < len(keys):
            raise KeyError
        return {key: _arranged(value[key], places) for key in own}
    return [_arranged(one, places) for one in value] if isinstance(value, list) else value
