"""Clock of watches: the database's. Tests let it run ahead, by the number of seconds in the file
that the environment variable WATCH_CLOCK names."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from crawlservice.connections import clock

AHEAD = Path(os.environ["WATCH_CLOCK"]) if os.environ.get("WATCH_CLOCK") else None
NOW = datetime(1970, 1, 1, tzinfo=UTC)  # next_at of pages that a person wants visited now


def now() -> datetime:
    """Raises django.db.Error."""
    told = clock.now()
    return told if AHEAD is None else told + timedelta(seconds=float(AHEAD.read_text() or 0))
