"""English of the code: docstrings, comments and texts of the admin, without translated turns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.turns import TURNS, excess

CHECKOUT = Path(__file__).resolve().parent.parent
DOCSTRING = re.compile(r'^ *r?"""(.*?)"""', re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"(?:^|\s)#\s(.*)$", re.MULTILINE)
TEXT = re.compile(r'^msgid(?:_plural)? "(.+)"$', re.MULTILINE)


def prose(source: str) -> str:
    """The docstrings and comments of a module."""
    return "\n".join(DOCSTRING.findall(source) + COMMENT.findall(source))


@pytest.mark.parametrize(
    "folder", ["benchmarks", "crawlframe", "crawlservice", "examples", "spiders", "tests"]
)
def test_the_english_is_plain(folder: str) -> None:
    modules = (CHECKOUT / folder).rglob("*.py")
    assert excess("\n".join(prose(path.read_text()) for path in modules)) == {}


def test_the_english_of_the_admin_is_plain() -> None:
    texts = TEXT.findall(
        (CHECKOUT / "crawlservice/locale/zh_Hans/LC_MESSAGES/django.po").read_text()
    )
    assert len(texts) > 1000
    assert excess("\n".join(texts)) == {}


def test_each_turn_is_counted() -> None:
    source = '"""What gives back,\nthat of another one."""\nwhat = "those of"  # of which nobody\n'
    assert excess(prose(source)) == dict.fromkeys(TURNS, 100.0)
