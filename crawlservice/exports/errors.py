"""Errors of definitions of exports."""

from __future__ import annotations

from crawlframe.errors import ArgumentError


class BadExport(ArgumentError):
    """``field``: the part of the definition that is wrong."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(f"{field}: {text}")
        self.field = field
