"""Extracted: the results of one extraction from a page."""

from __future__ import annotations

from datetime import date
from typing import NamedTuple


class Extracted(NamedTuple):
    """``text`` and ``markdown`` are "" if the page has no article."""

    text: str = ""
    markdown: str = ""
    title: str | None = None
    author: str | None = None
    date: date | None = None
