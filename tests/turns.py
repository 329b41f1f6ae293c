"""Turns of translated English, and how often each may occur in 1,000 words."""

from __future__ import annotations

import re
from typing import NamedTuple


class Turn(NamedTuple):
    pattern: str
    goal: float  # occurrences in 1,000 words

    def rate(self, text: str) -> float:
        """Its occurrences in 1,000 words of the text."""
        return 1000 * len(re.findall(self.pattern, text, re.IGNORECASE)) / len(text.split())


TURNS = {
    "what": Turn(r"\bwhat\b", 2.0),  # write the noun: a type, a unit, a subject
    "those of": Turn(r"\b(?:those|that) of\b|\bthose that\b", 0.8),
    "of which": Turn(r"\b(?:of|by|in) which\b", 0.8),
    "the one": Turn(r"\b(?:the|another|last) one\b", 0.8),
    "begins": Turn(r"\b(?:begins?|goes on|go on|lets? go|gives? back)\b", 0.4),
    "who": Turn(r"\b(?:who|nobody|somebody)\b", 0.3),
}


def excess(text: str) -> dict[str, float]:
    """Rates above their goals, by turn."""
    rates = {name: turn.rate(text) for name, turn in TURNS.items()}
    return {name: rate for name, rate in rates.items() if rate > TURNS[name].goal}
