"""ItemFilter: which items are meant, by one of their fields."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from django.db.models import Exists, OuterRef, Q, QuerySet

from crawlframe.errors import CrawlframeError, did_you_mean
from crawlframe.robots.usage import ABOUT
from crawlservice.models import Item, Page

FORM = "NAME=yes, NAME=no, NAME!=yes or NAME!=no"
_FILTER = re.compile(r"\s*([a-z-]+)\s*(!?=)\s*(yes|no)\s*")
OPERATORS = ("is", "contains", "empty", "filled", "min", "max")


class BadItemFilter(CrawlframeError):
    """A filter that cannot be applied."""


class ItemFilter(NamedTuple):
    """``min`` and ``max`` mean items whose field is a number in that range."""

    field: str
    operator: str
    value: str = ""

    @classmethod
    def make(cls, field: str, operator: str, value: str) -> ItemFilter:
        """Raises BadItemFilter."""
        if operator not in OPERATORS:
            raise BadItemFilter(f"{operator!r} is none of {', '.join(OPERATORS)}")
        if operator in ("min", "max") and number_of(value) is None:
            raise BadItemFilter(f"{field} {operator} {value!r}: enter a number, such as 2.5")
        return cls(field, operator, value.strip())

    def means(self, data: Mapping[str, Any]) -> bool:
        value = data.get(self.field)
        if self.operator == "empty":
            return is_empty(value)
        if self.operator == "filled":
            return not is_empty(value)
        if is_empty(value):
            return self.operator == "is" and not self.value
        if self.operator == "is":
            return text_of(value) == self.value
        if self.operator == "contains":
            return self.value.casefold() in text_of(value).casefold()
        number, bound = number_of(value), number_of(self.value)
        if number is None or bound is None:
            return False
        return number >= bound if self.operator == "min" else number <= bound


def is_empty(value: Any) -> bool:
    """None and empty text, lists and objects. 0 and false are values."""
    return value is None or value == "" or value == [] or value == {}


def text_of(value: Any) -> str:
    """The text of a value as shown in a cell."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def number_of(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def rank(value: Any) -> tuple[int, float, str]:
    """The place of a value in a sorted column: numbers, then text, then anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return 0, number_of(value) or 0.0, ""
    return (1 if isinstance(value, str) else 2), 0.0, text_of(value)


class BadUsageFilter(CrawlframeError):
    """It is not of the form of a filter, or names something that is not recorded."""


class UsageFilter(NamedTuple):
    """Pages that say ``word`` to something of ABOUT; ``negated``: that do not say so, also those
    that do not mention it."""

    about: str
    word: str
    negated: bool = False

    @classmethod
    def read(cls, text: str) -> UsageFilter:
        """Raises BadUsageFilter."""
        found = _FILTER.fullmatch(text.lower())
        if found is None:
            raise BadUsageFilter(f"usage {text!r} is not of the form {FORM}, such as ai-train!=no")
        about, sign, word = found.groups()
        if about not in ABOUT:
            raise BadUsageFilter(
                f"usage {text!r}: {about!r} is none of {', '.join(ABOUT)}"
                + did_you_mean(about, ABOUT)
            )
        return cls(about, word, sign == "!=")

    @property
    def condition(self) -> Q:
        """The condition on pages."""
        said = Q(**{f"usage__{self.about}": self.word})
        # Spelled out, because in SQL a comparison with NULL is neither true nor false.
        unsaid = Q(usage__isnull=True) | Q(**{f"usage__{self.about}__isnull": True})
        return unsaid | ~said if self.negated else said


def read_filters(text: str | None) -> list[UsageFilter]:
    """Returns the filters in a text with commas; none for None. Raises BadUsageFilter."""
    return [] if text is None else [UsageFilter.read(part) for part in text.split(",")]


def of_pages(rows: QuerySet[Page], filters: Iterable[UsageFilter]) -> QuerySet[Page]:
    """The pages that all filters mean."""
    for one in filters:
        rows = rows.filter(one.condition)
    return rows


def of_items(rows: QuerySet[Item], filters: Iterable[UsageFilter]) -> QuerySet[Item]:
    """The items of those pages."""
    pages = of_pages(Page.objects.filter(rid=OuterRef("rid")), filters)
    return rows.filter(Exists(pages)) if filters else rows
