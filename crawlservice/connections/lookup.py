"""Lookup of rows that users name by number."""

from __future__ import annotations

from typing import TypeVar

from django.db.models import Model, QuerySet

from crawlframe.base.program import command
from crawlframe.errors import CrawlframeError

M = TypeVar("M", bound=Model)


class NotFound(CrawlframeError):
    """There is no such thing. ``noun``: its kind, such as ``proxy_list``."""

    def __init__(self, noun: str, message: str) -> None:
        super().__init__(message)
        self.noun = noun


def find(
    rows: QuerySet[M], noun: str, number: object, *, column: str = "pk", listed: str = ""
) -> M:
    """The row with this number, or another ``column``. ``listed``: words of the command that lists
    all. Raises NotFound."""
    row = rows.filter(**{column: number}).first()
    if row is None:
        hint = f"; list them: {command(listed)}" if listed else ""
        raise NotFound(noun.replace(" ", "_"), f"there is no {noun} {number}{hint}")
    return row
