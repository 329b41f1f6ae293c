"""Proposals of cases in the database, the admin, the API and the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from crawlframe.frontier import Frontier
from crawlservice.models import Case, CaseSpider, KeptPage, Recipe
from tests.crawlservice.test_case_night import Night, moved, plain, renamed

pytestmark = [pytest.mark.usefixtures("service"), pytest.mark.databases("sqlite", "postgres")]


def case_of(site: Any) -> Case:
    night = Night()
    night.run("shop")
    night.run("shop", site)
    (case,) = night.look()
    return case


def proposals() -> dict[str, list[dict[str, Any]]]:
    return CaseSpider.objects.get().proposals or {}


def test_a_case_is_opened_with_proposals(service: Frontier) -> None:
    case_of(renamed)
    (name,) = proposals()
    best = proposals()[name][0]
    pages = best["examples"]
    assert (name, best["code"], best["line"]) == (
        "price", 'response.css(".amount::text").get()', "",
    )  # fmt: skip
    assert (best["right"], best["of"], best["alike"], best["others"]) == (4, 4, 0, 0)
    assert (pages[0]["known"], pages[0]["found"]) == ("337.50", "$337.50")
    assert KeptPage.objects.filter(pk=pages[0]["page"]).exists()


def test_later_runs_look_only_for_fields_that_have_none(
    service: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    night = Night()
    night.run("shop")
    night.run("shop", lambda host, n: renamed(host, n).replace("$", "on request, was a $"))
    night.look()
    assert proposals() == {"price": []}
    night.run("shop", renamed)
    night.look()
    first = proposals()
    assert first["price"]
    night.run("shop", moved)
    night.look()
    assert proposals() == first


def test_none_are_made_for_a_commit_or_a_challenge(service: Frontier) -> None:
    night = Night()
    night.run("shop")
    night.run("shop", lambda host, n: "<title>Just a moment...</title>Checking your browser")
    assert night.look()[0].cause == "challenge"
    assert CaseSpider.objects.get().proposals is None


def test_a_recipe_of_the_database_gets_a_line(service: Frontier) -> None:
    text = {
        "name": "shop", "start_urls": ["https://shop.example/"],
        "fields": {"title": ".name", "price": {"css": ".price", "regex": r"[\d.]+"}},
    }  # fmt: skip
    Recipe.objects.create(name="shop", number=1, text=json.dumps(text))
    case_of(renamed)
    assert proposals()["price"][0]["line"] == (
        r"""price = { css = ".amount::text", regex = "[\\d.]+" }"""
    )


def hostile(host: str, n: int) -> str:
    """The names of classes and keys are markup."""
    text = plain(host, n).replace("</body>", '<p class="x">\0</p></body>')
    data = {"<b>\0key": {"price": f"{100 * n + 37}.50"}}
    script = f'<script id="s" type="application/json">{json.dumps(data)}</script>'
    return text.replace('class="price"', 'data-qa="<i>" class="<u>"') + script


def test_the_page_the_api_and_the_command(
    service: Frontier, as_role: Callable[[str], Client]
) -> None:
    case = case_of(renamed)
    client = as_role("viewer")
    page = client.get(f"/admin/crawlservice/case/{case.pk}/change/").content.decode()
    for text in (
        "response.css(&quot;.amount::text&quot;).get()",
        "Right on 4 of 4 pages whose value is known.",
        "$337.50",
    ):
        assert text in page, text
    (first, *_) = client.get(f"/api/v1/cases/{case.pk}").json()["proposals"]
    assert (first["spider"], first["field"], first["right"]) == ("shop", "price", 4)
    out = StringIO()
    call_command("alert", "cases", str(case.pk), stdout=out)
    assert "right on 4 of 4 pages" in out.getvalue()


def test_what_the_page_says_is_text(service: Frontier, as_role: Callable[[str], Client]) -> None:
    case = case_of(hostile)
    case.spiders.update(
        proposals={"<b>price": [{
            "code": "<script>1</script>", "line": "", "expression": "<i>", "right": 1, "of": 1,
            "alike": 0, "others": 0,
            "examples": [{"page": 1, "url": "https://x.example", "known": "<u>", "found": "<s>"}],
        }]}
    )  # fmt: skip
    page = as_role("viewer").get(f"/admin/crawlservice/case/{case.pk}/change/").content.decode()
    for markup in ("<b>price", "<script>1", "<u>", "<s>"):
        assert markup not in page
    assert "&lt;script&gt;1&lt;/script&gt;" in page
