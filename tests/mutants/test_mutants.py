"""A few lines of the protocol are broken, and the tests named for them fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.mutants import page
from tests.mutants.arena import CHECKOUT, HANGS, Arena, Row
from tests.mutants.equivalent import unknown
from tests.mutants.every import mutants
from tests.mutants.lua import executable, of_script
from tests.mutants.mutant import Mutant

LUA = "crawlframe/frontier/lua"
RENEW = "the protocol or its tests changed: run `python -m tests.mutants` to renew docs/mutants.md"


class Sample(NamedTuple):
    file: str  # its name alone
    line: str
    what: str
    test: str  # below tests/frontier


SAMPLES = [
    Sample(
        "claim.lua",
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
        "release.lua",
        "if own and split_own(own) == ARGV[1] then",
        "without `and split_own(own) == ARGV[1]`",
        "test_give_back.py::test_only_the_holder_may_give_back[release]",
    ),
    Sample(
        "replay.lua",
        "call('SADD', FENCED, generation)",
        "removed",
        "test_replay.py::test_a_dead_generation_cannot_renew",
    ),
    Sample(
        "_guard.lua",
        "call('SET', PULSE(client), number, 'EX', PULSE_LASTS)",
        "removed",
        "test_eras.py::test_the_loss_of_a_single_call_is_noticed[complete]",
    ),
    Sample(
        "_shared.lua",
        "call('ZADD', HOSTS, 'NX', integer(math.max(tonumber(next_time) or 0, now_ms())), host)",
        "without `'NX',`",
        "test_claim.py::test_a_host_keeps_its_place_when_it_gets_more",
    ),
    Sample(
        "eras.py",
        "self._store.pulse.learn(partition, number)",
        "removed",
        "test_eras.py::test_an_era_begins_closed_and_is_opened[1]",
    ),
]


@pytest.fixture(scope="module")
def arena() -> Iterator[Arena]:
    with Arena({f"tests/frontier/{sample.test.partition('::')[0]}" for sample in SAMPLES}) as arena:
        yield arena


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.file)
def test_the_named_test_fails(arena: Arena, sample: Sample) -> None:
    test = f"tests/frontier/{sample.test}"
    found = [
        mutant
        for mutant in mutants([sample.file])
        if (mutant.line, mutant.what) == (sample.line, sample.what)
    ]
    assert found, RENEW
    [sound] = arena.look([test])
    assert not sound.failed
    first, again = arena.fight(found[0], [sound])
    assert first.failed
    assert again.failed
    assert again.again


def test_a_change_of_nothing_is_not_noticed(arena: Arena) -> None:
    file = f"{LUA}/complete.lua"
    source = (CHECKOUT / file).read_text()
    comment = source.replace("-- complete:", "-- complete now:")
    assert comment != source
    tests = [Row(test, seconds=HANGS) for test in arena.tests if "/test_complete.py" in test]
    rows = arena.fight(Mutant(file, 1, "", "", "complete", comment), tests)
    assert [row.failed for row in rows] == [""] * len(tests)


def test_a_script_that_does_not_end_is_noticed_and_another_begins(arena: Arena) -> None:
    file = f"{LUA}/complete.lua"
    source = (CHECKOUT / file).read_text() + "\nwhile true do end"
    endless = source.replace("return {ended, behind}", "")
    tests = [Row(test) for test in arena.tests if "test_an_error_counts_as_one" in test]
    [row] = arena.fight(Mutant(file, 1, "", "", "complete", endless), tests, patience=2)
    assert row.failed == "hangs"
    [sound] = arena.look([tests[0].test])
    assert not sound.failed


def test_the_page_says_nothing_that_is_not_so_any_more() -> None:
    assert page.problems(page.PAGE.read_text()) == [], RENEW


def test_reasons_are_given_for_mutants_that_exist() -> None:
    assert unknown(list(mutants([]))) == []


def test_a_page_that_lags_behind_is_found(tmp_path: Path) -> None:
    script = tmp_path / LUA / "push.lua"
    script.parent.mkdir(parents=True)
    script.write_text("call('DEL', 1)\nreturn 1\n")
    test = tmp_path / "tests/frontier/test_push.py"
    test.parent.mkdir(parents=True)
    test.write_text("def test_one(): ...\n")
    text = (
        f"## {LUA}/push.lua\n"
        "| 1 | `call('DEL', 1)` | removed | frontier/test_push.py::test_one |\n"
        "| 2 | `return 1` | removed | **nothing** |\n"
    )

    def wrong(page_text: str) -> str:
        problems = page.problems(page_text, tmp_path)
        return "\n".join(line for line in problems if LUA in line or line.startswith("tests/"))

    assert wrong(text) == ""
    assert "has no line" in wrong(text.replace("return 1", "return 2"))
    assert "has no test_two" in wrong(text.replace("test_one", "test_two"))
    assert "nothing is said of 'return 1'" in wrong(text.rpartition("| 2")[0])


# -- operators ------------------------------------------------------------------------------------


def changed(source: str) -> dict[str, str]:
    """What is done to the last line -> what that is then."""
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
