"""Fields: whether the items of all recorded pages have the fields that the spider promises."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from crawlframe.base.expect import expectation
from crawlframe.render.required import required_of
from crawlframe.spider.spider import Spider

MAX_PAGES = 3  # pages that are named for a field


def has_fields(kind: type[Spider]) -> bool:
    """Whether the spider says something about its fields."""
    expected = expectation(kind.expect)
    return bool(required_of(kind) or (expected and (expected.fields or expected.unique)))


def problems(
    kind: type[Spider],
    pages: Iterable[tuple[str, list[Any]]],
    unfit: Iterable[tuple[str, dict[str, int]]] = (),
) -> list[str]:
    """Returns a line for each field that lacks a value too often, occurs twice though it is unique,
    or does not fit the class of the items. ``pages`` are URLs with their items; ``unfit`` URLs with
    the number of items that did not fit, by reason."""
    items = [(url, item) for url, some in pages for item in some if isinstance(item, dict)]
    expected = expectation(kind.expect)
    shares = dict.fromkeys(required_of(kind), 1.0) | (expected.fields if expected else {})
    found = [
        f"{reason}: {number} items do not fit the class of the items, on {url}"
        for url, reasons in unfit
        for reason, number in reasons.items()
    ]
    if not items:
        return found or ["no recorded page leads to an item; record pages that do"]
    for name, share in shares.items():
        lacking = [url for url, item in items if item.get(name) in (None, "", [], {})]
        if len(lacking) > math.ceil((1 - share) * len(items) - 1e-9):  # few items: one may lack it
            have = len(items) - len(lacking)
            where = ", ".join(dict.fromkeys(lacking[:MAX_PAGES]))
            found.append(
                f"{name}: {have} of {len(items)} items have a value, {have / len(items):.0%}; at "
                f"least {share:.0%} should; it lacks on {where}"
            )
    for name in expected.unique if expected else ():
        values = Counter(json.dumps(item[name]) for _, item in items if item.get(name) is not None)
        for value, number in values.items():
            if number > 1:
                found.append(f"{name}: {value} occurs {number} times, and must be unique")
    return found
