"""Scripts: rules for the text of every Lua file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawlframe import gates
from crawlframe.frontier.client.scripts import GATES, LUA
from tests.mutants.lua import mask

MAX_LINES = 60  # of a function
WORDS = re.compile(r"\b(function|if|do|repeat|end|until)\b")


def functions(text: str) -> Iterator[tuple[int, int]]:
    """The first line and the number of lines of each function."""
    open_: list[tuple[str, int]] = []
    for number, line in enumerate(mask(text).split("\n"), 1):
        for word in WORDS.findall(line):
            if word in ("end", "until"):
                kind, start = open_.pop()
                if kind == "function":
                    yield start, number - start + 1
            else:
                open_.append((word, number))


@pytest.mark.parametrize("path", sorted(LUA.rglob("*.lua")), ids=lambda path: path.stem)
def test_no_function_is_too_long(path: Path) -> None:
    found = {start: lines for start, lines in functions(path.read_text()) if lines > MAX_LINES}
    assert found == {}


def test_a_long_function_is_found() -> None:
    text = "local function f()\n  if a then b() end\n  for x in y do\n    z('end')\n  end\nend\n"
    assert [*functions(text)] == [(1, 6)]


def test_the_gate_has_a_rule_for_each_setting() -> None:
    assert {path.stem for path in GATES.iterdir()} == {*gates.names()}
