"""Required: the fields without which an item is incomplete."""

from __future__ import annotations

import inspect
from typing import Any

from crawlframe.base.expect import expectation
from crawlframe.base.signatures import misfit

REQUIRED_SHARE = 0.5  # share of the items from which on an expected field is required


def required_of(spider: type[Any]) -> tuple[str, ...]:
    """The fields that must have a value: fields that ``expect`` names for at least half of the
    items, fields without a default in the class of the items, and fields that a recipe requires."""
    names = dict.fromkeys((*expected_fields(spider.expect), *spider._required))
    if isinstance(spider.item, type):
        from crawlframe.items.item_type import required_fields  # most spiders name none

        names |= dict.fromkeys(required_fields(spider.item))
    return tuple(names)


def expected_fields(expect: Any) -> list[str]:
    """Fields that at least half of the items should have. ``expect``: of a spider or a recipe.
    Raises ValueError."""
    expected = expectation(expect)
    shares = expected.fields.items() if expected else ()
    return [name for name, share in shares if share >= REQUIRED_SHARE]


def misuse_of(spider: type[Any], base: type[Any]) -> str:
    """Why it cannot be known when a page of the spider is incomplete; "" if it can. ``base`` is
    Spider."""
    judge = spider.needs_browser
    if judge is not base.needs_browser:
        words = "needs_browser is called with each plain page, as needs_browser(self, response)"
        if not callable(judge) or inspect.iscoroutinefunction(judge):
            return f"{words}; it must be a plain method"
        return f"{words}: {problem}" if (problem := misfit(judge, None, None)) else ""
    if required_of(spider):
        return ""
    return (
        'render = "auto" must know when a page is incomplete: name the fields that each item has, '
        'as in expect = Expect(fields={"price": 0.98}) or by the class of the items, or write '
        "needs_browser(self, response)"
    )
