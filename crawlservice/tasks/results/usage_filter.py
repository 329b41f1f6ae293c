"""UsageFilter: which pages are meant, by what they say about their use: ``ai-train!=no``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from django.db.models import Exists, OuterRef, Q, QuerySet

from crawlframe.errors import CrawlframeError, did_you_mean
from crawlframe.robots.usage import ABOUT
from crawlservice.models import Item, Page

FORM = "NAME=yes, NAME=no, NAME!=yes or NAME!=no"

_FILTER = re.compile(r"\s*([a-z-]+)\s*(!?=)\s*(yes|no)\s*")


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
        """For pages."""
        said = Q(**{f"usage__{self.about}": self.word})
        # Spelled out, because SQL knows neither of what is NULL.
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
