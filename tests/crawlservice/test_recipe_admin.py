"""Recipes in the admin: the form, rights, versions, and the trial of a page."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.test import Client
from selectolax.lexbor import LexborHTMLParser

from crawlframe.base.secret import MASK
from crawlframe.recipes.loading import recipe_of_stored
from crawlframe.recipes.reading import from_data
from crawlframe.recipes.recipe import as_data, as_text
from crawlservice.admin.recipes import recipes
from crawlservice.admin.recipes.input import Forms
from crawlservice.models import Action, Recipe, RecipeVersion, Task
from crawlservice.recipes import versions
from crawlservice.recipes.current import masked_text
from crawlservice.recipes.trial import TrialFailed
from crawlservice.tasks.submit import submit
from tests.crawlservice.programs import person, program
from tests.crawlservice.web import texts

LIST = "/admin/crawlservice/recipe/"

WHOLE: dict[str, Any] = {
    "name": "books",
    "description": "Books.\nOf a shop.",
    "start_urls": ["https://books.example/{shelf}", "https://books.example/{1..3}"],
    "same_site": False,
    "allowed_domains": ["other.example"],
    "start_items": False,
    "each": {"xpath": "//article"},
    "fields": {
        "title": {"css": "h2", "attribute": "title"},
        "price": {"css": ".price", "convert": ["price", "list"], "regex": "[0-9]+"},
        "stock": {"jmespath": "stock", "default": 0},
        "size": {"css": "#data", "jmespath": "a.b", "default": "none"},
        "url": {"page": "url"},
        "isbn": {"regex": "ISBN (.*)"},
    },
    "required": ["title", "url"],
    "rules": [
        {"allow": ["/a", "/b"], "items": False},
        {"deny": ["/c"], "restrict_css": ["nav"], "follow": False},
        {},
    ],
    "next": {"css": "a.next", "limit": 5},
    "detail": {"css": "a", "fields": {"pages": "td"}, "required": ["pages"]},
    "settings": {"page_limit": 50, "delay": 0.5, "timeout": 60},
    "arguments": {
        "shelf": {"default": "poetry"},
        "n": {"type": "int", "default": 3},
        "kind": {"choices": ["new", "old"]},
        "tags": {"type": "list", "default": ["a", "b"]},
    },
}


def posted(page: str, **more: str) -> dict[str, str]:
    """The fields that a browser sends of the unchanged form."""
    form: dict[str, str] = {}
    for one in LexborHTMLParser(page).css("#recipe [name], [form=recipe][name]"):
        name, attributes = one.attributes["name"] or "", one.attributes
        if "__prefix__" in name or one.tag == "button":
            continue
        if one.tag == "select":
            chosen = one.css_first("option[selected]") or one.css_first("option")
            form[name] = (chosen.attributes.get("value") or "") if chosen else ""
        elif attributes.get("type") == "checkbox":
            if "checked" in attributes:
                form[name] = "on"
        elif one.tag == "textarea":
            form[name] = one.text(deep=True).removeprefix("\n")
        else:
            form[name] = attributes.get("value") or ""
    return form | more


def new(**more: str) -> dict[str, str]:
    """A form with one field."""
    form = {"name": "books", "start_urls": "https://books.example/", "same_site": "on"}
    form["start_items"] = "on"
    for prefix in ("fields", "details", "rules", "arguments"):
        form |= {f"{prefix}-TOTAL_FORMS": "0", f"{prefix}-INITIAL_FORMS": "0"}
    form |= {"fields-TOTAL_FORMS": "1", "fields-0-name": "title", "fields-0-kind": "css"}
    return form | {"fields-0-expression": "h1"} | more


@pytest.fixture
def operator(as_role: Callable[[str], Client]) -> Client:
    return as_role("operator")


def test_a_recipe_is_made_and_submitted(operator: Client, published: Any) -> None:
    page = operator.get(f"{LIST}add/").content.decode()
    assert "data-pick" in page
    answer = operator.post(f"{LIST}add/", new(_run="1"))
    task = Task.objects.get()
    assert (task.spider, task.arguments, task.priority) == ("books", {}, 0)
    assert answer["Location"] == f"/admin/crawlservice/task/{task.pk}/change/"
    recipe = recipe_of_stored(Recipe.objects.get().text)
    assert as_data(recipe)["fields"] == {"title": {"css": "h1"}}
    assert Action.objects.get(verb="add recipe").detail == {"recipe": "books", "version": 1}
    assert Action.objects.get(verb="submit").task_id == task.pk
    assert "books" in operator.get("/admin/submit/").content.decode()
    operator.post("/admin/submit/?spider=books", {"priority": "0"})
    assert [task.spider for task in Task.objects.all()] == ["books", "books"]


def test_one_with_arguments_is_asked_for_them(operator: Client, published: Any) -> None:
    recipe = versions.add(from_data(WHOLE), AnonymousUser())
    place = f"{LIST}{recipe.pk}/change/"
    page = operator.get(place).content.decode()
    answer = operator.post(place, {**posted(page), "_run": "1"})
    assert answer["Location"] == "/admin/submit/?spider=books"
    assert not Task.objects.exists()


def test_the_form_shows_and_keeps_everything(operator: Client) -> None:
    recipe = versions.add(from_data(WHOLE), AnonymousUser())
    page = operator.get(f"{LIST}{recipe.pk}/change/").content.decode()
    assert operator.post(f"{LIST}{recipe.pk}/change/", posted(page)).status_code == 302
    recipe.refresh_from_db()
    assert as_data(recipe_of_stored(recipe.text)) == as_data(from_data(WHOLE))
    assert recipe.number == 1  # nothing has changed


def test_a_change_is_a_new_version_and_can_be_taken_back(operator: Client) -> None:
    operator.post(f"{LIST}add/", new())
    recipe = Recipe.objects.get()
    place = f"{LIST}{recipe.pk}/"
    page = operator.get(f"{place}change/").content.decode()
    operator.post(f"{place}change/", posted(page, description="Mine."))
    page = operator.get(f"{place}versions/2/").content.decode()
    assert '+ "description": "Mine.",' in texts(page, ".cf-changes span")
    operator.post(f"{place}versions/1/")
    recipe.refresh_from_db()
    assert (recipe.number, recipe.versions.get(number=3).restored) == (3, 1)
    assert "Mine" not in recipe.text
    verbs = Action.objects.exclude(verb="login").order_by("pk").values_list("verb", flat=True)
    assert list(verbs) == ["add recipe", "change recipe", "restore recipe"]


def test_two_who_save_at_once(operator: Client) -> None:
    operator.post(f"{LIST}add/", new())
    place = f"{LIST}{Recipe.objects.get().pk}/change/"
    page = operator.get(place).content.decode()
    operator.post(place, posted(page, description="One."))
    for seen in ({}, {"seen": "x"}):
        answer = operator.post(place, posted(page, description="Two.", **seen))
        assert "was saved meanwhile" in answer.content.decode()
    assert Recipe.objects.get().number == 2


def test_mistakes_are_shown_where_they_are(operator: Client) -> None:
    for typed, says in (
        ({"name": "a b"}, "must be up to 100 letters"),
        ({"fields-0-expression": "h1["}, "is not a CSS selector"),
        ({"fields-0-convert": "prise"}, "there is no converter"),
        ({"page_limit": "many"}, "must be a whole number"),
        ({"settings": "{"}, "Not JSON"),
        ({"settings": '{"a":' * 100_000}, "Not JSON"),
        ({"settings": '{"ip": {"delay": Infinity}}'}, "it must be at most"),
        ({"settings": '{"dely": 1}'}, "did you mean"),
        ({"rules-TOTAL_FORMS": "1", "rules-0-allow": "("}, "is not a regular expression"),
        ({"details-TOTAL_FORMS": "1", "details-0-name": "a", "details-0-expression": "b"},
         "The fields of its page need the link to it"),
        ({"next_url": "https://a.example/{x}", "next": "a"}, "has no {value}"),
    ):  # fmt: skip
        page = operator.post(f"{LIST}add/", new(**typed)).content.decode()
        assert any(says in text for text in texts(page, ".cf-bad-text, .cf-bad"))
        assert not Recipe.objects.exists()


@pytest.mark.parametrize("role", ["viewer", "submitter"])
def test_other_roles_view(as_role: Callable[[str], Client], operator: Client, role: str) -> None:
    operator.post(f"{LIST}add/", new())
    pk = Recipe.objects.get().pk
    client = as_role(role)
    page = client.get(f"{LIST}{pk}/change/")
    assert page.status_code == 200
    assert "Try on this page" not in page.content.decode()
    assert client.get(f"{LIST}{pk}/versions/1/").status_code == 200
    assert client.get(f"{LIST}add/").status_code == 403
    for place in ("add/", f"{pk}/change/", f"{pk}/versions/1/", "try/", f"{pk}/delete/"):
        assert client.post(LIST + place, new()).status_code == 403
    assert Recipe.objects.get().number == 1


def test_headers_are_masked_for_those_who_may_not_change_them(
    as_role: Callable[[str], Client], operator: Client
) -> None:
    for number, token in enumerate(("hush-1", "hush-2"), 1):
        data = {**WHOLE, "settings": {"headers": {"X-Token": token}}}
        text = as_text(from_data(data))
        recipe, _ = Recipe.objects.update_or_create(name="books", defaults={"text": text})
        RecipeVersion.objects.create(recipe=recipe, number=number, text=text)
    viewer = as_role("viewer")
    for place in ("change/", "versions/2/", "file/"):
        page = viewer.get(f"{LIST}{recipe.pk}/{place}").content.decode()
        assert "X-Token" in page
        assert "hush" not in page
    assert "hush-2" in operator.get(f"{LIST}{recipe.pk}/file/").content.decode()
    told = program(person("viewer", "program")).get("spiders/books").json()
    assert told["settings"]["headers"] == {"X-Token": MASK}


def test_a_text_that_cannot_be_read_is_not_shown() -> None:
    assert [masked_text(text) for text in ("{", "[]", "[" * 100_000)] == ["", "", ""]
    assert masked_text('{"settings": {"headers": "x"}}') == (
        '{\n  "settings": {\n    "headers": {}\n  }\n}\n'
    )


def test_a_file_for_the_folder_of_the_spiders(operator: Client) -> None:
    operator.post(f"{LIST}add/", new())
    answer = operator.get(f"{LIST}{Recipe.objects.get().pk}/file/")
    assert answer["Content-Disposition"] == 'attachment; filename="books.json"'
    assert json.loads(answer.content)["fields"] == {"title": {"css": "h1"}}


def test_a_recipe_is_deleted_when_its_tasks_have_ended(operator: Client, published: Any) -> None:
    operator.post(f"{LIST}add/", new())
    pk = Recipe.objects.get().pk
    task = submit("books", {})
    page = operator.post(f"{LIST}{pk}/delete/", {"post": "yes"}, follow=True).content.decode()
    assert f"tasks of books still run ({task.pk})" in page
    Task.objects.update(state="finished")
    operator.post(f"{LIST}{pk}/delete/", {"post": "yes"})
    assert not Recipe.objects.exists()


FOUND = {
    "url": "https://books.example/", "status": 200, "ok": True, "kind": "html", "size": 10,
    "seconds": 0.1, "count": 1, "complete": 1, "links": [{"count": 2, "urls": ["https://a/"]}],
    "next": "https://books.example/2", "html": "<script>alert(1)</script><h1>Hi</h1>",
    "rows": [{"name": "title", "cells": [{"value": "<b>Hi</b>", "nothing": False, "found": 1,
                                          "problem": "", "missing": False}]}],
}  # fmt: skip


def test_a_page_is_tried_and_shown_in_a_sandbox(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def answer(*given: Any) -> dict[str, Any]:
        asked.append(given)
        return FOUND

    monkeypatch.setattr(recipes, "try_out", answer)
    page = operator.post(f"{LIST}try/", new(try_url=" https://books.example/x ")).content.decode()
    assert asked[0][0].name == "books"
    assert asked[0][1] == "https://books.example/x"
    (frame,) = LexborHTMLParser(page).css("iframe")
    assert frame.attributes["sandbox"] == "allow-same-origin"  # no scripts, forms, navigation
    assert not LexborHTMLParser(page).css("script")
    assert texts(page, "td") == ["<b>Hi</b>"]
    (link,) = LexborHTMLParser(page).css("button[data-try]")  # tried with a click
    assert link.attributes["data-try"] == "https://a/"
    assert not Recipe.objects.exists()


def test_what_is_said_when_a_trial_fails(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: Any) -> None:
        raise TrialFailed("robots.txt forbids it")

    monkeypatch.setattr(recipes, "try_out", fail)
    assert "robots.txt forbids it" in operator.post(f"{LIST}try/", new()).content.decode()
    page = operator.post(f"{LIST}try/", new(**{"fields-0-expression": "h1["})).content.decode()
    assert "title selector:" in " ".join(texts(page, "li"))
    assert operator.get(f"{LIST}try/").status_code == 405


def test_removed_rows_do_not_count() -> None:
    rule = {"rules-TOTAL_FORMS": "1", "rules-0-items": "on", "rules-0-follow": "on"}
    forms = Forms.of(new(**{"fields-0-gone": "on"}, **rule))
    contents = forms.contents()
    assert contents is not None
    assert contents.fields == {}
    assert len(contents.rules) == 1  # a rule without patterns follows all links
