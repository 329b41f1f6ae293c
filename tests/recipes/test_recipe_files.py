"""Recipes among the modules of the spiders package."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crawlframe.code.registry import Registry
from crawlframe.code.source import SourceFinder
from crawlframe.recipes.loading import RecipeFiles
from tests.imports import undone

GOOD = 'start_urls = ["https://a.example/"]\ndescription = "All of it."\n'


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Registry]]:
    """``load({name: text})``: a registry of a package with these files."""
    others = [finder for finder in sys.meta_path if not isinstance(finder, SourceFinder)]
    monkeypatch.setattr(sys, "meta_path", others)

    def make(texts: dict[str, str | bytes]) -> Registry:
        for name, text in texts.items():
            place = tmp_path / "recipe_spiders" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(text.encode() if isinstance(text, str) else text)
        return Registry.load(tmp_path / "recipe_spiders", sources=[RecipeFiles()])

    with undone("recipe_spiders"):
        yield make


def test_recipes_are_spiders_like_others(load: Callable[..., Registry]) -> None:
    registry = load({"books.toml": GOOD, "far/news.json": '{"start_urls": ["https://b.example/"]}'})
    assert sorted(registry.spiders) == ["books", "news"]
    info = registry.info("books")
    assert (info.doc, info.module) == ("All of it.", "recipe_spiders/books.toml")
    assert registry.info("news").module == "recipe_spiders/far/news.json"
    assert (registry.broken, registry.files) == ({}, [])


def test_a_broken_one_does_not_stop_the_others(
    load: Callable[..., Registry], tmp_path: Path
) -> None:
    registry = load({"books.toml": GOOD, "bad.toml": f"{GOOD}nxt = 'a'\n", "no.toml": b"\xff"})
    assert [*registry.spiders] == ["books"]
    place = tmp_path / "recipe_spiders"
    assert registry.broken["recipe_spiders/bad.toml"].startswith(
        f"{place}/bad.toml:3: nxt: there is no key 'nxt' here (did you mean 'next'?)"
    )
    assert registry.broken["recipe_spiders/no.toml"].startswith(f"{place}/no.toml:1: not UTF-8")


def test_data_of_spiders_are_no_recipes(load: Callable[..., Registry]) -> None:
    registry = load(
        {"data.json": "[1, 2]", "more.json": b"\xff", "my.toml": "a = 1", "x.json": "{"}
    )
    assert not registry.spiders
    assert not registry.broken


def test_a_name_that_is_used_twice(load: Callable[..., Registry], tmp_path: Path) -> None:
    registry = load({"books.toml": GOOD, "other.toml": f'name = "books"\n{GOOD}'})
    assert not registry.spiders
    text = registry.broken["recipe_spiders/books.toml"]
    assert text.startswith(f"{tmp_path}/recipe_spiders/books.toml:1: the spider name 'books' is")


def test_a_change_is_seen(load: Callable[..., Registry], tmp_path: Path) -> None:
    registry = load({"books.toml": GOOD})
    assert registry.changed() == []
    (tmp_path / "recipe_spiders" / "books.toml").write_text(f"{GOOD}\n")
    assert registry.changed() == [tmp_path / "recipe_spiders" / "books.toml"]
