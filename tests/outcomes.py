"""Outcomes of tests, and the participants of a ledger that takes them."""

from __future__ import annotations

from typing import Any, TypeVar

from crawlframe.run.outcome import Outcome
from crawlframe.run.participant import Participant
from crawlservice.ledger.store import DjangoLedger

P = TypeVar("P", bound=Participant)


def set_fields(outcome: Outcome, **fields: Any) -> Outcome:
    """Sets fields of any part."""
    for name, value in fields.items():
        parts = (outcome, outcome.fetch, outcome.results)
        setattr(next(part for part in parts if hasattr(part, name)), name, value)
    return outcome


def participant(ledger: DjangoLedger, kind: type[P]) -> P:
    return next(one for one in ledger._participants._all if isinstance(one, kind))
