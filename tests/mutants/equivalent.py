"""Equivalent: mutants that no test can notice, and why."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

REASONS: dict[tuple[str, str, str], str] = {}


def reason(mutant: Mutant) -> str:
    """Why it changes nothing that can be seen; "" when nothing is known of it."""
    return REASONS.get((mutant.file.rpartition("/")[2], mutant.line, mutant.what), "")
