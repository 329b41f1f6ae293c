"""States: the one word that says how an export is doing."""

from __future__ import annotations

from crawlservice.models import Export


def state_of(export: Export) -> str:
    """``running``, ``failing``, ``paused``, or ``removed`` from the file that defined it."""
    if not export.listed:
        return "removed"
    if export.paused:
        return "paused"
    return "failing" if export.problem else "running"
