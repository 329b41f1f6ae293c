"""Times that are typed on pages, in the time zone of the service, UTC."""

from __future__ import annotations

from datetime import UTC, datetime

from django.utils.dateparse import parse_datetime


def moment_of(text: object) -> datetime | None:
    """``2026-01-31T12:00``; None for anything else."""
    try:
        found = parse_datetime(str(text or ""))
    except ValueError:
        return None
    return found if found is None or found.tzinfo else found.replace(tzinfo=UTC)
