"""A few lines of the scripts are broken, and the tests named for them fail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.mutants.arena import CHECKOUT, HANGS, Arena, Row
from tests.mutants.campaign import SUITES
from tests.mutants.equivalent import REASONS, unknown
from tests.mutants.every import Shown, mutants, shown
from tests.mutants.lua import bounded, executable, marked, of_script, statement
from tests.mutants.mutant import Mutant

LUA = "crawlframe/frontier/lua"
GONE = "no such mutant: the line of this sample changed, so choose another"


class Sample(NamedTuple):
    file: str  # its name alone
    line: str
    what: str
    test: str  # below tests/frontier


SAMPLES = [
    Sample(
        "begin.lua",
        "if call('SISMEMBER', FENCED, generation) == 1 then",
        "never",
        "test_claim.py::test_a_fenced_generation_gets_nothing",
    ),
    Sample(
        "complete.lua",
        "if records[i] and not gone[rid] and task then",
        "without `and not gone[rid]`",
        "test_complete.py::test_the_same_request_twice_in_a_batch",
    ),
    Sample(
        "_shared.lua",
        "call('ZADD', HOSTS, 'LT', integer(math.ceil(math.max(tonumber(next_time) or 0, "
        "now_ms()))), host)",
        "removed",
        "test_claim.py::test_a_host_keeps_its_place_when_it_gets_more",
    ),
]


@pytest.fixture(scope="module")
def arena() -> Iterator[Arena]:
    with Arena({f"tests/frontier/{sample.test.partition('::')[0]}" for sample in SAMPLES}) as arena:
        yield arena


@pytest.fixture(scope="module")
def forms() -> Shown:
    return shown()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.file)
def test_the_named_test_fails(arena: Arena, forms: Shown, sample: Sample) -> None:
    test = f"tests/frontier/{sample.test}"
    found = [
        mutant
        for mutant in mutants([sample.file])
        if (mutant.line, mutant.what) == (sample.line, sample.what)
    ]
    assert found, GONE
    [sound] = arena.look([test], forms.marked, forms.bounded)
    assert not sound.failed
    assert forms.statement(found[0]) in sound.lines[found[0].file]
    first, again = arena.fight(found[0], [sound])
    assert first.failed
    assert again.failed
    assert again.again


def test_a_test_that_fails_on_the_sound_code_too_notices_nothing(arena: Arena) -> None:
    file = f"{LUA}/complete.lua"
    source = (CHECKOUT / file).read_text() + "\n"
    [test] = [test for test in arena.tests if "test_an_error_counts_as_one" in test]
    rows = arena.fight(Mutant(file, 1, "", "", "complete", source), [Row(test)], patience=0)
    assert [(row.failed, row.again) for row in rows] == [("hangs", False)]


def test_a_change_of_nothing_is_not_noticed(arena: Arena) -> None:
    file = f"{LUA}/complete.lua"
    source = (CHECKOUT / file).read_text()
    comment = source.replace("-- complete:", "-- complete now:")
    assert comment != source
    tests = [Row(test, seconds=HANGS) for test in arena.tests if "/test_complete.py" in test]
    rows = arena.fight(Mutant(file, 1, "", "", "complete", comment), tests)
    assert [row.failed for row in rows] == [""] * len(tests)


def test_a_script_that_does_not_end_is_noticed_by_its_work(arena: Arena) -> None:
    file = f"{LUA}/complete.lua"
    source = (CHECKOUT / file).read_text() + "\nwhile true do end"
    endless = source.replace("return {ended, behind}", "")
    tests = [Row(test) for test in arena.tests if "test_an_error_counts_as_one" in test]
    _, again = arena.fight(Mutant(file, 1, "", "", "complete", endless), tests)
    assert "it does not end" in again.failed


def test_reasons_are_given_for_mutants_that_exist() -> None:
    lines = {line for file in REASONS.values() for line in file}
    assert unknown(list(mutants([], lines))) == []


# -- operators ------------------------------------------------------------------------------------


def changed(source: str) -> dict[str, str]:
    """The changed part of the last line -> the resulting line."""
    made = of_script("x/one.lua", source, lambda text: True)
    last = source.count("\n")
    return {m.what: m.source.split("\n")[last] for m in made if m.number == last + 1}


def test_a_condition() -> None:
    found = changed("if a < b and not (c or 'x and y' == d) then e() end -- and f")
    assert found["always"] == "if true then e() end -- and f"
    assert found["without `not`"] == "if a < b and (c or 'x and y' == d) then e() end -- and f"
    assert found["without `a < b and`"] == "if not (c or 'x and y' == d) then e() end -- and f"
    assert found["without `or 'x and y' == d`"] == "if a < b and not (c ) then e() end -- and f"
    assert found["`<` becomes `<=`"].startswith("if a <= b")
    assert not any("`f`" in what or "x and" in what for what in found if "==" not in what)


def test_statements() -> None:
    assert changed("call('ZADD', K, 'NX', -n, 'EX', T)") == {
        "removed": "",
        "without `'NX',`": "call('ZADD', K, -n, 'EX', T)",
        "without the minus": "call('ZADD', K, 'NX', n, 'EX', T)",
        "without `'EX', T`": "call('ZADD', K, 'NX', -n)",
    }
    assert changed("for i = 1, #x do y() end")["the loop does not run"].endswith(
        "do break end y() end"
    )
    assert changed("return a and 1 or 0")["without `or 0`"] == "return a and 1 "


def test_heads_and_comments_have_none() -> None:
    source = "-- one\nlocal function f(a)\n  g(\n    1,\n    2)\nend\nelse"
    assert executable(source) == {3: "g(", 4: "1,"}


def test_loops_are_bounded_without_another_line() -> None:
    source = "for i = 1, 2 do f() end\nrepeat -- while\n  g('while x do')\nuntil h()"
    short = bounded(source, 7)
    assert short.startswith("KEYS.turns_ = 7 for i = 1, 2 do KEYS.turns_ = ")
    assert short.count("it does not end") == 2
    assert short.count("\n") == source.count("\n")


def test_the_line_that_must_run() -> None:
    source = "if a\n  and b then\n  c()\nelse d() end\ne(\n  f)"
    text, numbers = marked("x/one.lua", source, lambda text: "](2) end" not in text)
    assert {1, 3, 5} <= numbers
    assert "@x/one.lua:" in text
    assert [statement(source, {1, 3, 5}, number) for number in range(1, 7)] == [1, 1, 3, 1, 5, 5]


def test_the_tests_that_mutants_face_exist() -> None:
    assert [suite for suite in SUITES if not (CHECKOUT / suite).exists()] == []
