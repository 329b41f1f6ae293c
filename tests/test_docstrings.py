"""The language of docstrings and comments: turns of translated English per 1,000 words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.turns import GOALS, TURNS

CHECKOUT = Path(__file__).resolve().parent.parent
DOCSTRING = re.compile(r'^ *r?"""(.*?)"""', re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"(?:^|\s)#\s(.*)$", re.MULTILINE)
# A limit is only lowered, towards its goal.
LIMITS = {
    "crawlframe": [*GOALS.values()],
    "crawlservice": [3.2, 1.2, 0.8, 0.8, 0.4, 0.8],
    "examples": [*GOALS.values()],
    "spiders": [*GOALS.values()],
    "tests": [11.5, 1.8, 1.6, 1.2, 1.4, 1.5],
}


def rates(sources: list[str]) -> list[float]:
    """Turns per 1,000 words."""
    found = [part for one in sources for form in (DOCSTRING, COMMENT) for part in form.findall(one)]
    return [round(turn.rate("\n".join(found)), 2) for turn in TURNS.values()]


@pytest.mark.parametrize("folder", LIMITS)
def test_the_english_is_plain(folder: str) -> None:
    found = rates([path.read_text() for path in (CHECKOUT / folder).rglob("*.py")])
    assert all(map(float.__le__, found, map(float, LIMITS[folder]))), found


def test_each_turn_is_counted() -> None:
    source = '"""What gives back,\nthat of another one."""\nwhat = "those of"  # of which nobody\n'
    assert rates([source]) == [100] * 6
