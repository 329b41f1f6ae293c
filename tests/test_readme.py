"""The first pages for a newcomer are the same in both languages, and name only what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
PAIRS = [
    ("README.md", "README.zh-CN.md"),
    ("docs/guide/first-crawl.md", "docs/guide/first-crawl.zh-CN.md"),
]
PAGES = {name: (CHECKOUT / name).read_text() for pair in PAIRS for name in pair}


def code(page: str) -> list[str]:
    """The blocks of code of a page, without the comments of commands: those are translated."""
    blocks = re.findall(r"```\w*\n(.*?)```", page, re.DOTALL)
    return [re.sub(r" +# .*", "", block) for block in blocks]


def link_targets(page: str) -> list[str]:
    """Targets of links, without the language: each README links to the quickstart in its own."""
    targets = re.findall(r"\]\(([^)#:]+)\)", page)
    return sorted(target.replace(".zh-CN", "") for target in targets)


@pytest.mark.parametrize("names", PAIRS, ids=lambda pair: pair[0])
def test_both_languages_have_the_same_structure(names: tuple[str, str]) -> None:
    english, chinese = (PAGES[name] for name in names)
    assert code(english) == code(chinese)
    assert len(code(english)) >= 3
    headings = [re.findall(r"^(#+) ", page, re.MULTILINE) for page in (english, chinese)]
    assert headings[0] == headings[1]
    bullets = [len(re.findall(r"^\* ", page, re.MULTILINE)) for page in (english, chinese)]
    assert bullets[0] == bullets[1]
    assert link_targets(english) == link_targets(chinese)
    numbers = [sorted(re.findall(r"\d+(?:[.,]\d+)*", page)) for page in (english, chinese)]
    assert numbers[0] == numbers[1]


@pytest.mark.parametrize("name", PAGES)
def test_targets_of_links_exist(name: str) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", PAGES[name])
    assert len(links) >= 4
    missing = {link for link in links if not (CHECKOUT / name).parent.joinpath(link).exists()}
    assert missing == set()


@pytest.mark.parametrize("name", PAIRS[0])
def test_the_readme_is_short(name: str) -> None:
    assert len(PAGES[name].splitlines()) < 120
