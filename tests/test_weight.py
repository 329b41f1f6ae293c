"""Limits of the house (benchmarks/weight/limits.toml): the counts stay below them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.weight.source import LIMITS, Source

PYTHON = '''
class Base:
    first: int

class Fields(Base):
    second: int = 2

    def __init__(self, a, b, *, c=None):
        self.third = a
        if a:
            for one in b:
                pass
        elif b:
            pass

class Request:
    def __init__(self, a, b, c, d):
        pass
'''  # fmt: skip
LUA = """
local function short()
end
local take = function(a)
  if a then
    return
  end
end
"""


@pytest.fixture(scope="module")
def source() -> Source:
    return Source()


@pytest.mark.slow
@pytest.mark.parametrize("name", LIMITS["exact"])
def test_nothing_is_over_its_limit(source: Source, name: str) -> None:
    value, where = getattr(source, name)()
    limit = LIMITS["exact"][name]["limit"]
    assert value > 0, "it is counted where it was"
    assert value <= limit, f"{name} is {value:,}, the limit is {limit:,} ({where})"


def test_each_figure_has_a_limit_and_a_goal_below_it() -> None:
    for name, row in (LIMITS["exact"] | LIMITS["measured"]).items():
        assert row.keys() == {"limit", "goal"}, name
        assert row["goal"] <= row["limit"], name


@pytest.mark.slow
def test_what_is_exempt_exists(source: Source) -> None:
    named = {node.name for _, node in source._classes}
    assert {*LIMITS["exempt"]["parameters"], *LIMITS["exempt"]["fields"]} <= named


def test_figures_are_counted_where_they_are_largest(tmp_path: Path) -> None:
    for name, text in (("crawlframe/a.py", PYTHON), ("crawlservice/lua/b.lua", LUA)):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "crawlservice/lua/c.txt").write_text("no line of the product")
    source = Source(tmp_path)
    assert source.python_function_lines() == (7, "crawlframe/a.py Fields.__init__")
    assert source.lua_function_lines() == (5, "crawlservice/lua/b.lua take")
    assert source.nesting().value == 2
    assert source.parameters() == (3, "crawlframe/a.py Fields.__init__")
    assert source.fields() == (3, "crawlframe/a.py Fields")
    assert source.product_lines().value == len((PYTHON + LUA).splitlines())
    assert (source.root_modules().value, source.folder_modules().value) == (1, 1)
