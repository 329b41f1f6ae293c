"""Cases in the admin, the API and the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from crawlframe.frontier import Frontier
from crawlservice.admin.alerts.cases import marked
from crawlservice.models import Action, Case, CaseSpider
from tests.crawlservice.test_case_night import Night, plain, redesigned, renamed

pytestmark = [pytest.mark.usefixtures("service"), pytest.mark.databases("sqlite")]
PLACE = "/admin/crawlservice/case/"
JSON = "application/json"


@pytest.fixture
def case(service: Frontier) -> Case:
    night = Night()
    night.run("shop")
    night.run("shop", renamed)
    return night.look()[0]


def text_of(client: Client, place: str) -> str:
    response = client.get(place)
    assert response.status_code == 200, place
    return response.content.decode()


def test_the_dashboard_begins_with_open_cases(case: Case, as_role: Callable[[str], Client]) -> None:
    client = as_role("operator")
    page = text_of(client, "/admin/")
    assert "1 open case" in page
    assert page.index("shop.example has renamed") < page.index("What needs me")
    assert "All is well." not in page
    sent = {"verb": "acknowledge", "from": "dashboard"}
    assert client.post(f"{PLACE}{case.pk}/decide/", sent)["Location"] == "/admin/"
    assert "open case" not in text_of(client, "/admin/")
    case.refresh_from_db()
    assert (case.state, case.acknowledged_by.username) == ("acknowledged", "operator")  # type: ignore[union-attr]
    assert Action.objects.get(verb="acknowledge case").detail == {
        "case": case.pk,
        "cause": "renamed",
    }


def test_the_menu_has_cases_once_there_is_one(as_role: Callable[[str], Client]) -> None:
    client = as_role("viewer")
    assert f'href="{PLACE}"' not in text_of(client, "/admin/")
    Case.objects.create(cause="unknown", key="x", since="2026-01-01T00:00Z", first_task=1)
    assert f'href="{PLACE}"' in text_of(client, "/admin/")


def test_the_list_is_filtered(
    case: Case, as_role: Callable[[str], Client], published: Frontier, shop: Any
) -> None:
    from msgspec.structs import replace

    published.spiders.publish([replace(shop, owners=("viewer",))])
    client = as_role("viewer")
    for query in ("state=open", "cause=renamed", "spider=shop", "owner=mine", ""):
        assert "shop.example has renamed" in text_of(client, f"{PLACE}?{query}"), query
    for query in ("state=closed", "cause=commit", "spider=news", "owner=nobody"):
        assert "shop.example has renamed" not in text_of(client, f"{PLACE}?{query}"), query
    assert "viewer" in text_of(client, f"{PLACE}?state=open")


def test_the_page_of_a_case(case: Case, as_role: Callable[[str], Client]) -> None:
    client = as_role("operator")
    Case.objects.filter(pk=case.pk).update(
        examples=[{**case.examples[0], "old": "<b>12 €</b>", "new": "<b>13 €</b>"}]
    )
    page = text_of(client, f"{PLACE}{case.pk}/change/")
    for text in (
        "The last good run had the same code version",
        "price stood in span.price and stands in span.amount now: on 4 of 4 pages.",
        "&lt;b&gt;<mark>12</mark> €",  # values are text, never markup
        "<mark>13</mark>",
        f"/admin/crawlservice/keptpage/{case.examples[0]['old_page']}/change/",
        "it stands in span.amount now",
    ):
        assert text in page, text
    assert client.post(f"{PLACE}{case.pk}/decide/", {"verb": "burn"}).status_code == 403
    client.post(f"{PLACE}{case.pk}/decide/", {"verb": "close"})
    assert Case.objects.get().state == "closed"
    assert "cf-close" not in text_of(client, f"{PLACE}{case.pk}/change/")
    assert client.get(f"{PLACE}99/change/").status_code == 404


def test_viewers_see_cases_and_decide_nothing(case: Case, as_role: Callable[[str], Client]) -> None:
    client = as_role("viewer")
    assert "cf-acknowledge" not in text_of(client, f"{PLACE}{case.pk}/change/")
    assert client.post(f"{PLACE}{case.pk}/decide/", {"verb": "close"}).status_code == 403
    answer = client.post(f"/api/v1/cases/{case.pk}/close", content_type=JSON)
    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("old", "new", "marks"),
    [
        ("Oak chair", "Pine chair", ("[Oak] chair", "[Pine] chair")),
        ("12.50 EUR", "12,50 EUR", ("12[.]50 EUR", "12[,]50 EUR")),
        ("same", "same", ("same", "same")),
        ("", "new", ("", "new")),
        ("old", "", ("old", "")),
    ],
)
def test_words_that_differ_are_marked(old: str, new: str, marks: tuple[str, str]) -> None:
    told = tuple(
        "".join(f"[{part.text}]" if part.differs else part.text for part in some)
        for some in marked(old, new)
    )
    assert told == marks


def test_the_api_lists_shows_and_decides(case: Case, as_role: Callable[[str], Client]) -> None:
    client = as_role("operator")
    found = client.get("/api/v1/cases").json()
    assert [one["id"] for one in found["cases"]] == [case.pk]
    one = client.get(f"/api/v1/cases/{case.pk}").json()
    assert one == found["cases"][0]
    assert (one["cause"], one["state"], one["blame"]) == ("renamed", "open", "site")
    assert one["text"].startswith("shop: shop.example has renamed the elements of price")
    assert one["spiders"][0] | {"spider": "shop", "fields": ["price"]} == one["spiders"][0]
    assert one["examples"][0]["old"] == "337.50"
    for query, number in (("cause=renamed", 1), ("cause=commit", 0), ("spider=shop", 1),
                          ("spider=x", 0), ("owner=mine", 0)):  # fmt: skip
        assert len(client.get(f"/api/v1/cases?{query}").json()["cases"]) == number, query
    assert client.get("/api/v1/cases?cause=moon").status_code == 422
    place = f"/api/v1/cases/{case.pk}"
    acknowledged = client.post(f"{place}/acknowledge", content_type=JSON).json()
    assert (acknowledged["state"], acknowledged["acknowledged_by"]) == ("acknowledged", "operator")
    assert client.post(f"{place}/close", content_type=JSON).json()["state"] == "closed"
    again = client.post(f"{place}/close", content_type=JSON)
    assert (again.status_code, again.json()["error"]["message"]) == (
        409, f"case {case.pk} is closed",
    )  # fmt: skip
    assert client.get("/api/v1/cases").json()["cases"] == []
    assert len(client.get("/api/v1/cases?ended=true").json()["cases"]) == 1
    assert client.get("/api/v1/cases/99").status_code == 404


def run(*words: str) -> str:
    out = StringIO()
    call_command("alert", "cases", *words, stdout=out)
    return out.getvalue()


def test_the_command(case: Case) -> None:
    number = str(case.pk)
    assert "shop.example has renamed" in run()
    assert json.loads(run("--json"))["cases"][0]["id"] == case.pk
    shown = run(number)
    assert "337.50" in shown
    assert "the site" in shown
    assert json.loads(run(number, "--json"))["cause"] == "renamed"
    with pytest.raises(CommandError, match="name the case"):
        run("--ack")
    assert f"case {number} acknowledged" in run(number, "--ack")
    assert f"case {number} closed" in run(number, "--close")
    with pytest.raises(CommandError, match=f"case {number} is closed"):
        run(number, "--close")
    with pytest.raises(CommandError, match="no case 99"):
        run("99")
    assert "No case is open." in run()


def test_several_spiders_are_named(service: Frontier) -> None:
    night = Night()
    names = [f"s{n}" for n in range(5)]
    for name in names:
        night.run(name, plain, "one.example")
    for name in names:
        night.run(name, redesigned, "one.example")
    night.look()
    assert CaseSpider.objects.count() == 5
    assert "s0, s1, s2 and 2 more: one.example was redesigned: price" in run()
