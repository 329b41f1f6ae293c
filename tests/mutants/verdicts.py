"""Verdicts: the result of each mutant, kept in a file so that a run can be continued."""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from crawlframe.frontier.client import scripts
from crawlframe.frontier.client.scripts import LUA, UNGUARDED, verbs
from tests.mutants import lua
from tests.mutants.arena import CHECKOUT, Row
from tests.mutants.mutant import Mutant

# In this order, whatever a test costs. The machine finds much, but does not name the cause.
TURNS = ("tests/frontier/test_machine.py", "tests/frontier", "tests/crawlservice")
PARTS = {"_guard": "eras", "era": "eras", "lease": "replay", "leases": "replay", "known": "seen"}
PARTS |= dict.fromkeys(("release", "retry", "park", "unpark"), "give_back")
PARTS |= {"cookies": "state", "advance": "state", "close": "open", "announce": "rollouts"}


class Verdict(NamedTuple):
    """``test``: noticed it, "" for a survivor. ``why``: how it failed."""

    test: str
    why: str = ""


class Verdicts:
    """Verdicts of mutants by name, and the code that each test runs. Both outlive this process."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._file, self._looks = directory / "verdicts", directory / "looks"
        self._verdicts: dict[str, Verdict] = {}
        self._kills: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        self.tests: dict[str, Row] = {}
        for line in self._file.read_text().splitlines() if self._file.exists() else ():
            name, file, number, *verdict = json.loads(line)
            self._take(name, file, number, Verdict(*verdict))
        for line in self._looks.read_text().splitlines() if self._looks.exists() else ():
            seal, *fields = json.loads(line)
            row = Row(*fields)
            if seal == _seal(row):
                self.tests[row.test] = row._replace(verbs=tuple(row.verbs))

    def of(self, mutant: Mutant) -> Verdict | None:
        """None also if the test that noticed no longer exists."""
        verdict = self._verdicts.get(mutant.name)
        return verdict if verdict is None or not verdict.test or _exists(verdict.test) else None

    def keep(self, mutant: Mutant, verdict: Verdict) -> None:
        self._take(mutant.name, mutant.file, mutant.number, verdict)
        with self._file.open("a") as file:
            file.write(json.dumps([mutant.name, mutant.file, mutant.number, *verdict]) + "\n")

    def look(self, rows: Iterable[Row]) -> None:
        """Records the code that tests run, unchanged."""
        with self._looks.open("a") as file:
            for row in rows:
                self.tests[row.test] = row
                file.write(json.dumps([_seal(row), *row._replace(lines={**row.lines})]) + "\n")

    def likeliest(self, mutant: Mutant, tests: Iterable[str], statement: int) -> list[Row]:
        """The tests that may notice it, as they run this line; first tests that noticed a near
        one."""
        kills = self._kills[mutant.file]

        part = "_guard" if mutant.file.endswith("_guard.lua") else mutant.part
        likely = f"/test_{PARTS.get(part, part)}.py"

        def place(row: Row) -> tuple[object, ...]:
            near = sum(1 / (1 + abs(mutant.number - number)) for number in kills[row.test])
            return -round(near, 1), _turn(row.test), likely not in row.test, row.seconds

        rows = (self.tests[test] for test in tests)
        able = (row for row in rows if not row.failed and _runs(row, mutant, statement))
        return sorted(able, key=place)

    def _take(self, name: str, file: str, number: int, verdict: Verdict) -> None:
        self._verdicts[name] = verdict
        if verdict.test:
            self._kills[file][verdict.test].append(number)


@cache
def _text(file: str) -> str:
    path = CHECKOUT / file
    return path.read_text() if path.exists() else ""


def _exists(test: str) -> bool:
    file, _, name = test.partition("::")
    return f"def {name.partition('[')[0]}(" in _text(file)


def _seal(row: Row) -> str:
    """Changes with the test's file, and with those whose lines it runs."""
    texts = [_text(file) for file in (row.test.partition("::")[0], *sorted(row.lines))]
    return hashlib.blake2b("\n".join(texts).encode(), digest_size=8).hexdigest()


def _turn(test: str) -> float:
    turn = next(turn for turn, name in enumerate(TURNS) if test.startswith(name))
    return turn or 1.5


def _runs(row: Row, mutant: Mutant, statement: int) -> bool:
    lines = row.lines.get(mutant.file)
    if lines is not None and statement:
        return statement in lines
    name = mutant.file.rpartition("/")[2]
    if name.startswith("_"):
        return not _verbs(name, mutant.part).isdisjoint(row.verbs)
    return mutant.part in row.verbs


@cache
def _verbs(name: str, function: str) -> set[str]:
    """The verbs that use a shared function; all, if the line is outside of functions."""
    guarded = {verb for verb in verbs() if verb not in UNGUARDED or name != "_guard.lua"}
    if not function or name == "_guard.lua":
        return guarded
    words = re.compile(rf"\b({'|'.join(lua.users((LUA / name).read_text(), function))})\b")
    texts = {verb: "\n".join(path.read_text() for path in scripts.files(verb)) for verb in guarded}
    return {verb for verb, text in texts.items() if words.search(lua.mask(text))}
