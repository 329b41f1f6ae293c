"""The two READMEs tell the same, and name only what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
PAGES = {name: (CHECKOUT / name).read_text() for name in ("README.md", "README.zh-CN.md")}
ENGLISH, CHINESE = PAGES.values()


def code(page: str) -> list[str]:
    """Its blocks of code, without the comments of commands: those are translated."""
    blocks = re.findall(r"```\w*\n(.*?)```", page, re.DOTALL)
    return [re.sub(r" +# .*", "", block) for block in blocks]


def first_cells(page: str) -> list[str]:
    """Of the tables: commands and variables."""
    cells = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    return [cell.replace("、", ", ") for cell in cells]


def test_both_have_the_same_structure_and_commands() -> None:
    assert code(ENGLISH) == code(CHINESE)
    assert len(code(ENGLISH)) >= 8
    assert first_cells(ENGLISH) == first_cells(CHINESE)
    headings = [re.findall(r"^(#+) ", page, re.MULTILINE) for page in PAGES.values()]
    assert headings[0] == headings[1]
    bullets = [len(re.findall(r"^\* ", page, re.MULTILINE)) for page in PAGES.values()]
    assert bullets[0] == bullets[1]


@pytest.mark.parametrize("name", PAGES)
def test_what_they_link_to_is_there(name: str) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", PAGES[name])
    assert len(links) >= 12
    missing = {link for link in links if not (CHECKOUT / link).exists()}
    assert missing == set()


def test_every_command_is_named() -> None:
    known = {path.stem for path in (CHECKOUT / "crawlservice/management/commands").glob("*.py")}
    table = " ".join(first_cells(ENGLISH))
    assert {name for name in known - {"__init__"} if not re.search(rf"\b{name}\b", table)} == set()
