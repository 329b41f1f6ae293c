"""The spider that a command means: one of the code, or else a recipe of the database."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.core.management import CommandError, call_command
from django.db import DatabaseError

from crawlframe.code.registry import Registry
from crawlframe.errors import UnknownSpider
from crawlframe.recipes.reading import from_data
from crawlservice.cli import named_spider
from crawlservice.cli.crawl import Crawl
from crawlservice.cli.local_node import LocalNode
from crawlservice.cli.named_spider import NamedSpiders
from crawlservice.models import Recipe, Task
from crawlservice.recipes import versions
from tests.crawlservice.conftest import join, published, service, shop
from tests.fetch.conftest import LOOPBACK, Site, _server, site

__all__ = ("_server", "join", "published", "service", "shop", "site")

SPIDER = """
from crawlframe import Spider

class Shop(Spider):
    name = "shop"
    start_urls = ["http://127.0.0.1/"]

    def parse(self, response): ...
"""


@pytest.fixture
def registry(
    tmp_path: Path, settings_with: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> Registry:
    folder = tmp_path / "named_spiders"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "shop.py").write_text(SPIDER)
    monkeypatch.syspath_prepend(tmp_path)
    settings_with(
        CRAWLFRAME=replace(settings.CRAWLFRAME, spiders=folder.name, allow_private=LOOPBACK)
    )
    return Registry.load(folder)


def save(name: str, **parts: Any) -> Recipe:
    data = {"name": name, "start_urls": ["http://127.0.0.1/"], "fields": {"title": {"css": "h1"}}}
    return versions.add(from_data(data | parts), AnonymousUser())


def run(*words: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command(*words, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


@pytest.mark.usefixtures("orm")
def test_the_spider_of_the_code_comes_first(registry: Registry) -> None:
    assert NamedSpiders(registry).get("shop").note == ""
    save("shop")
    named = NamedSpiders(registry).get("shop")
    assert (named.kind, named.recipe) == (registry.get("shop"), 0)
    assert named.note == "shop is the spider of named_spiders.shop; the recipe shop is not used"


@pytest.mark.usefixtures("orm")
def test_else_it_is_the_recipe_in_its_present_version(registry: Registry) -> None:
    recipe = save("books")
    contents = from_data({"name": "books", "start_urls": ["http://127.0.0.1/b"]})
    versions.change(recipe.pk, contents, AnonymousUser(), seen=1)
    named = NamedSpiders(registry).get("books")
    assert named.kind().start().__next__().url == "http://127.0.0.1/b"
    assert named.note == "books is a recipe of the database, version 2"
    assert (named.info.name, named.recipe) == ("books", 2)


@pytest.mark.usefixtures("orm")
def test_a_name_that_neither_has(registry: Registry) -> None:
    save("books")
    with pytest.raises(UnknownSpider, match=r"'bookz'.*did you mean 'books'.*Known: books, shop"):
        NamedSpiders(registry).get("bookz")


@pytest.mark.usefixtures("orm")
def test_one_that_this_release_cannot_read(registry: Registry) -> None:
    save("books")
    Recipe.objects.update(text='{"fields": 5}')
    with pytest.raises(UnknownSpider, match="recipe books cannot be read: "):
        NamedSpiders(registry).get("books")
    with pytest.raises(CommandError, match="broken: books"):
        run("check")


@pytest.mark.usefixtures("orm")
def test_a_database_that_is_away_is_said_only_where_it_matters(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> Any:
        raise DatabaseError("it is away")

    monkeypatch.setattr(named_spider, "every", away)
    assert NamedSpiders(registry).get("shop").note == ""
    with pytest.raises(UnknownSpider, match=r"not be asked for recipes: it is away"):
        NamedSpiders(registry).get("books")
    assert "note: the database could not be asked for recipes: it is away" in run("check")[1]


@pytest.mark.usefixtures("orm", "registry")
def test_check_lists_recipes_after_the_code() -> None:
    save("books", settings={"delay": 3})
    save("shop")
    out, err = run("check")
    rows = [" ".join(line.replace("│", " ").split()) for line in out.splitlines()]
    assert "books recipe, version 1 delay = 3.0" in rows
    assert "2 spiders, no problems" in rows
    assert "the recipe shop is not used" in err


@pytest.mark.usefixtures("orm", "registry")
def test_parse_and_fetch_take_a_recipe(site: Site) -> None:
    save("books", settings={"user_agent": "books/1"})
    site.answer("/a", b"<h1>A title</h1>", headers={"Content-Type": "text/html"})
    out, err = run("parse", f"{site.url}/a", "--spider", "books")
    assert json.loads(out) == {"title": "A title"}
    assert err.startswith("note: books is a recipe of the database, version 1\n")
    assert "note: books is a recipe" in run("fetch", f"{site.url}/a", "--spider", "books")[1]
    assert [one.header("User-Agent") for one in site.seen] == ["books/1", "books/1"]


@pytest.mark.usefixtures("registry", "published")
def test_crawl_takes_a_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes are asked for no spider of this name, and none is published."""

    class Stop(Exception):
        pass

    def stop(crawl: Crawl, task: Task, node: LocalNode) -> None:
        raise Stop

    said: list[str] = []
    save("books")
    monkeypatch.setattr(Crawl, "_crawl", stop)
    monkeypatch.setattr(Crawl, "_print", lambda crawl, text: said.append(text))
    with pytest.raises(Stop):
        call_command("crawl", "books")
    assert said[0] == "note: books is a recipe of the database, version 1"
    assert Task.objects.get().spider == "books"
