"""Events of tasks of which cases are made."""

from __future__ import annotations

from crawlservice.models import Event

TELLING = (Event.Kind.FINISHED, Event.Kind.FAILED, Event.Kind.QUALITY_FAILED)
