"""The docs name files and functions that exist, and the numbered steps are complete."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
DOCS = CHECKOUT / "docs"
PAGES = {
    str(path.relative_to(DOCS)): path.read_text()
    for path in (DOCS / "architecture.md", DOCS / "survives.md", *DOCS.glob("internals/*.md"))
}

# `file.py` `Name` or `file.py` `Class.method`, with anything but a backquote in between.
NAMED = re.compile(r"`([\w./]+\.py)`[^`]{1,20}`([A-Za-z_]\w*(?:\.\w+)?)`")
FILES = re.compile(r"`([\w./]+/[\w.]+\.(?:py|lua))`")
STEPS = re.compile(r"^(\d+)\. ", re.MULTILINE)


def names_in(source: str) -> set[str]:
    """Functions, classes, and methods as Class.method."""
    names = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                    names.add(f"{node.name}.{part.name}")
    return names


def problems(page: str) -> list[str]:
    """The names on the page that the checkout lacks."""
    missing = [
        f"{file} is not there" for file in FILES.findall(page) if not (CHECKOUT / file).exists()
    ]
    for file, name in NAMED.findall(page):
        path = CHECKOUT / file
        if path.exists() and name not in names_in(path.read_text()):
            missing.append(f"{file} has no {name}")
    return missing


@pytest.mark.parametrize("name", PAGES)
def test_everything_named_exists(name: str) -> None:
    assert problems(PAGES[name]) == []


@pytest.mark.parametrize(
    ("name", "least"),
    [("architecture.md", 9), ("internals/request.md", 11), ("internals/code.md", 8),
     ("internals/recovery.md", 8)],
)  # fmt: skip
def test_the_steps_are_numbered_without_a_gap_and_name_code(name: str, least: int) -> None:
    numbers = [int(number) for number in STEPS.findall(PAGES[name])]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= least
    steps = STEPS.split(PAGES[name])[2::2]
    assert all(NAMED.search(step) or "`Frontier." in step for step in steps)


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ("see `crawlframe/nowhere.py`", "crawlframe/nowhere.py is not there"),
        ("`crawlframe/request/request.py` `vanish`", "crawlframe/request/request.py has no vanish"),
        (
            "`crawlframe/node/master/master.py` `Master._fly`",
            "crawlframe/node/master/master.py has no Master._fly",
        ),
    ],
)
def test_a_wrong_page_is_noticed(page: str, problem: str) -> None:
    assert problems(page) == [problem]
