"""The file OWNERS: which owners a spider has, and what is wrong with a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from crawlframe.code.imports import Dependencies
from crawlframe.code.owners import OwnersFile, owners_of, read_owners
from crawlframe.code.registry import Registry
from crawlframe.errors import SpiderError
from tests.test_registry import load, spider

__all__ = ("load",)

TEXT = """
# The last line that matches wins.
*         @data-team
shop-*    anna bob@shop.example  # the shops
shop-test                        # nobody's
news.[ab]* carl
"""


@pytest.mark.parametrize(
    ("name", "owners"),
    [
        ("other", ("data-team",)),
        ("shop-de", ("anna", "bob@shop.example")),
        ("shop-test", ()),
        ("news.b1", ("carl",)),
        ("news.c1", ("data-team",)),
        ("Shop-de", ("data-team",)),
    ],
)
def test_the_last_pattern_that_matches_has_the_owners(name: str, owners: tuple[str, ...]) -> None:
    assert owners_of(name, read_owners(TEXT, "OWNERS")) == owners


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("* anna\n/shop/* bob\n", "OWNERS:2: '/shop/\\*' is no pattern of spiders; write their"),
        ("\n\n* @\n", "OWNERS:3: the owner '' must have 1 to 100 characters"),
        (f"* {'a' * 101}", "OWNERS:1: the owner 'a{20}' must have 1 to 100 characters"),
    ],
)
def test_a_wrong_line_is_named(text: str, problem: str) -> None:
    with pytest.raises(SpiderError, match=problem):
        read_owners(text, "OWNERS")


def test_a_file_without_rules_has_no_owners() -> None:
    assert read_owners("", "OWNERS") == read_owners("# no\n\n  # one", "OWNERS") == []
    assert owners_of("shop", []) == ()


@pytest.fixture
def loaded(load: Callable[..., Registry], tmp_path: Path) -> Callable[..., Registry]:
    """A registry of two spiders beside this file."""

    def make(data: bytes | None = None) -> Registry:
        if data is not None:
            (tmp_path / "OWNERS").write_bytes(data)
        return load({"sources": [OwnersFile()]}, one=spider("shop"), two=spider("news"))

    return make


def owners(registry: Registry) -> dict[str, tuple[str, ...]]:
    return {info.name: info.owners for info in registry.infos}


def test_spiders_are_published_with_their_owners(
    loaded: Callable[..., Registry], tmp_path: Path
) -> None:
    registry = loaded()
    assert (owners(registry), registry.broken) == ({"news": (), "shop": ()}, {})
    assert registry.files == [tmp_path / "OWNERS"]  # it may be added
    before = Dependencies(registry).mark("shop")
    registry = loaded(b"\xef\xbb\xbfshop @anna\r\n")  # as editors on Windows save it
    assert owners(registry) == {"news": (), "shop": ("anna",)}
    assert registry.files == [tmp_path / "OWNERS"]
    assert Dependencies(registry).mark("shop") == before  # its code is the same


@pytest.mark.parametrize(
    ("data", "problem"),
    [(b"* anna\n/x bob", "OWNERS:2: '/x' is no"), (b"\xff", "OWNERS:1: not UTF-8: ")],
)
def test_a_wrong_file_is_as_broken_code(
    loaded: Callable[..., Registry], data: bytes, problem: str
) -> None:
    registry = loaded(data)
    assert sorted(registry.spiders) == ["news", "shop"]
    assert problem in registry.broken["OWNERS"]
