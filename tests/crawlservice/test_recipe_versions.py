"""Recipes in the database: versions, and that they are submitted like other spiders."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User

from crawlframe.errors import SpiderError, UnknownSpider
from crawlframe.recipes.loading import recipe_of_stored
from crawlframe.recipes.reading import from_data
from crawlframe.recipes.recipe import as_text
from crawlframe.run.ledger import StoredRecipe
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Recipe
from crawlservice.recipes import current, versions
from crawlservice.tasks.submit import published as published_info
from crawlservice.tasks.submit import published_spiders, spiders, submit

pytestmark = pytest.mark.usefixtures("service")
BOTH = pytest.mark.databases("sqlite", "postgres")  # SQL that differs, or locks rows

NOBODY = AnonymousUser()


def contents(**data: Any) -> Any:
    return from_data({"name": "books", "start_urls": ["https://a.example/"], **data})


def test_versions_are_kept_with_who_made_them() -> None:
    ann = User.objects.create_user("ann")
    recipe = versions.add(contents(), ann)
    versions.change(recipe.pk, contents(fields={"title": "h1"}), NOBODY, seen=1)
    recipe.refresh_from_db()
    found = recipe.versions.values_list("number", "user", "name", "restored")
    assert list(found) == [(2, None, "", None), (1, ann.pk, "ann", None)]
    assert recipe.text == as_text(contents(fields={"title": "h1"}))


@BOTH
def test_two_who_change_it_at_once() -> None:
    recipe = versions.add(contents(), NOBODY)
    versions.change(recipe.pk, contents(description="One."), NOBODY, seen=1)
    with pytest.raises(versions.Stale, match="version 2 of the recipe was saved meanwhile"):
        versions.change(recipe.pk, contents(description="Two."), NOBODY, seen=1)


@BOTH
def test_a_name_is_used_once() -> None:
    versions.add(contents(), NOBODY)
    with pytest.raises(versions.NameTaken, match="a recipe 'books' already"):
        versions.add(contents(), NOBODY)


def test_difference() -> None:
    lines = versions.difference("a\nb\nc\n", "a\nx\nc\n")
    assert lines == [("@", "@ -1,3 +1,3 @@"), (" ", "a"), ("-", "b"), ("+", "x"), (" ", "c")]


def test_a_recipe_is_submitted_like_a_spider(published: Any) -> None:
    versions.add(contents(arguments={"city": "ulm"}, settings={"page_limit": 5}), NOBODY)
    assert published_info("books").arguments["properties"]["city"]["default"] == "ulm"
    assert "books" in spiders()
    assert "books" in published_spiders()
    task = submit("books", {"city": "bonn"})
    assert (task.spider, task.settings["page_limit"]) == ("books", 5)


def test_nodes_get_the_current_version(published: Any) -> None:
    recipe = versions.add(contents(), NOBODY)
    task = submit("books", {})
    ledger = DjangoLedger()
    spec = ledger.tasks.spec(task.pk)
    assert spec is not None
    assert spec.recipe == StoredRecipe(1, as_text(contents()))
    versions.change(recipe.pk, contents(description="New."), NOBODY, seen=1)
    assert ledger.tasks.recipe_numbers({"books", "others"}) == {"books": 2}


def test_what_this_release_cannot_read_is_left_out() -> None:
    Recipe.objects.create(name="new", text='{"name": "new", "magic": 1}')
    assert current.infos() == {}
    with pytest.raises(UnknownSpider, match="recipe 'new' cannot be read: "):
        current.info("new")
    with pytest.raises(SpiderError):
        recipe_of_stored("[]")
