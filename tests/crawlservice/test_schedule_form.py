"""The form of a schedule: its spider is chosen, and each argument of it has a field."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from crawlframe.frontier import Frontier
from crawlframe.spider.spider import SpiderInfo, describe
from crawlservice.models import Action, Schedule, Task
from crawlservice.scheduling.schedules import run_now
from tests.crawlservice.conftest import redis_at
from tests.crawlservice.forms import Typed, fields, filled_in, problems
from tests.crawlservice.web import log_in_as, texts

LIST = "/admin/crawlservice/schedule/"
ADD = f"{LIST}add/?spider=typed"
OFF = "redis://127.0.0.1:1/0"
FULL: dict[str, Any] = {
    "site": "http://x/?a=1&b=<2>", "city": "", "pages": 9, "ratio": 0.5, "kind": 3,
    "since": "2026-01-31", "strict": True, "polite": False, "maybe": False, "tags": ["a,b", "c"],
    "extra": {"ü": None}, "either": "seven",
}  # fmt: skip


@pytest.fixture
def operator(service: Frontier, shop: SpiderInfo) -> Client:
    service.spiders.publish([describe(Typed), shop])
    return log_in_as("operator")


def schedule(**arguments: Any) -> Schedule:
    return Schedule.objects.create(name="x", spider="typed", arguments=arguments, every=3600)


def change_of(made: Schedule) -> str:
    return f"{LIST}{made.pk}/change/"


def form_at(client: Client, place: str) -> dict[str, str]:
    """The fields that a browser would send of the unchanged form; without the buttons."""
    form = filled_in(client.get(place).content.decode())
    arguments = set(describe(Typed).arguments["properties"])
    buttons = ("csrfmiddlewaretoken", "_save", "_continue", "_addanother")
    return {
        f"argument-{name}" if name in arguments else name: value
        for name, value in form.items()
        if name not in buttons and not name.startswith("crawlservice_")
    }


def send(client: Client, place: str = ADD, **changes: str | None) -> str:
    """Sends the form with these changes, where "__" stands for "-"; None: a switch that is off."""
    sent = form_at(client, place) | {name.replace("__", "-"): v for name, v in changes.items()}
    data = {name: value for name, value in sent.items() if value is not None}
    return str(client.post(place, data, follow=True).content.decode())


def test_the_spider_is_chosen_first(operator: Client) -> None:
    page = operator.get(f"{LIST}add/").content.decode()
    assert 'href="?spider=typed"' in page
    assert 'href="?spider=shop"' in page
    assert "Arguments of all kinds." in page
    made = schedule(site="x")
    assert 'href="?spider=shop"' in operator.get(f"{change_of(made)}?spider=").content.decode()
    assert operator.get(f"{LIST}999/change/?spider=").status_code == 403
    viewer = log_in_as("viewer")
    for place in (f"{LIST}add/", f"{change_of(made)}?spider="):
        assert viewer.get(place).status_code == 403


def test_each_argument_has_the_field_of_its_type(operator: Client) -> None:
    page = operator.get(ADD).content.decode()
    found = fields(page)
    kinds = {name: node.attributes.get("type") or node.tag for name, node in found.items()}
    assert kinds["spider"] == "hidden"
    assert kinds["pages"] == "number"
    assert kinds["kind"] == "select"
    assert kinds["since"] == "date"
    assert kinds["polite"] == "checkbox"
    assert kinds["tags"] == "textarea"
    assert "arguments" not in found
    assert "a whole number, at least 1, at most 9" in page
    assert texts(page, "label.required")[:3] == ["Name*", "Spider*", "Priority*"]
    assert "site*" in texts(page, "label.required")


def test_a_schedule_is_made_of_fields_and_can_start(operator: Client) -> None:
    send(
        operator, name="new", every="3600", argument__site="http://x/", argument__pages="9",
        argument__kind="3", argument__polite=None, argument__tags="a, b",
    )  # fmt: skip
    made = Schedule.objects.get()
    expected = {
        "site": "http://x/", "pages": 9, "kind": 3, "polite": False, "tags": ["a", "b"],
    }  # fmt: skip
    assert made.arguments == expected
    assert (made.spider, made.every) == ("typed", 3600)
    assert made.next_at is not None
    run_now(made)
    assert Task.objects.get().arguments == expected
    action = Action.objects.get(verb="add schedule")
    assert "argument-site" in action.detail["fields"]


def test_a_change_of_nothing_leaves_every_argument_as_it_was(operator: Client) -> None:
    stored = {**FULL, "maybe": None, "ratio": None, "tags": None}
    made = schedule(**stored)
    form = form_at(operator, change_of(made))
    assert form["argument-site"] == FULL["site"]
    assert form["argument-kind"] == "3"
    assert form["argument-extra"] == '{"ü": null}'
    send(operator, change_of(made), name="renamed")
    made.refresh_from_db()
    assert made.name == "renamed"
    assert made.arguments == stored


def test_text_stays_to_the_last_mark(operator: Client) -> None:
    stored = {"site": " two\nlines ", "city": "Ulm", "either": "7", "pages": 3, "strict": False}
    made = schedule(**stored)
    page = operator.get(change_of(made)).content.decode()
    assert fields(page)["site"].tag == "textarea"
    send(operator, change_of(made), argument__site=" two\r\nlines ")
    made.refresh_from_db()
    assert made.arguments == stored  # including values equal to the spider's own
    send(operator, change_of(made), argument__pages="4", argument__site="one")
    made.refresh_from_db()
    assert made.arguments == {**stored, "site": "one", "pages": 4}
    Schedule.objects.update(arguments={"site": ""})
    send(operator, change_of(made), name="renamed")
    made.refresh_from_db()
    assert (made.name, made.arguments) == ("renamed", {"site": ""})


def test_errors_stand_at_their_fields(operator: Client) -> None:
    page = send(
        operator, name="new", every="3600", argument__pages="10", argument__since="<i>yesterday",
        argument__extra="[1]", priority="101", argument__kind="old",
    )  # fmt: skip
    found = problems(page)
    assert set(found) == {"site", "pages", "since", "extra", "kind", "priority"}
    assert "is required: " in found["site"]
    assert "at most 9" in found["pages"]
    assert filled_in(page)["pages"] == "10"
    assert "<i>yesterday" not in page
    assert not Schedule.objects.exists()


def test_what_the_spider_does_not_take_any_more(operator: Client) -> None:
    made = schedule(site="x", kind="old", town="Ulm")
    page = operator.get(change_of(made)).content.decode()
    assert "no longer takes these arguments" in page
    assert "saving removes them: town" in page
    assert filled_in(page)["kind"] == "old"
    assert "'old' is not accepted" in problems(send(operator, change_of(made)))["kind"]
    send(operator, change_of(made), argument__kind="used")
    made.refresh_from_db()
    assert made.arguments == {"site": "x", "kind": "used"}


def test_the_spider_of_a_schedule_is_changed(operator: Client) -> None:
    made = schedule(site="x", city="Ulm", pages=9)
    place = f"{change_of(made)}?spider=shop"
    page = operator.get(place).content.decode()
    assert set(fields(page)) >= {"city", "pages"}
    assert "site" not in fields(page)
    assert (filled_in(page)["city"], filled_in(page)["pages"]) == ("", "1")
    assert filled_in(page)["spider"] == "shop"
    send(operator, place, **{"argument-city": "Bern"})
    made.refresh_from_db()
    assert (made.spider, made.arguments) == ("shop", {"city": "Bern"})


def test_a_spider_that_no_node_has_is_kept_with_its_arguments(operator: Client) -> None:
    made = Schedule.objects.create(name="x", spider="gone", arguments={"a": [1]}, every=3600)
    page = operator.get(change_of(made)).content.decode()
    assert "there is no spider" in page
    assert filled_in(page)["arguments"] == '{"a": [1]}'
    send(operator, change_of(made), name="renamed", arguments='{"a": [1, null]}')
    made.refresh_from_db()
    assert (made.name, made.spider, made.arguments) == ("renamed", "gone", {"a": [1, None]})
    page = send(operator, f"{LIST}add/?spider=later", name="new", every="60", arguments="{}")
    assert "there is no spider" in page
    assert Schedule.objects.get(name="new").spider == "later"


def test_redis_goes_away_and_comes_back_while_the_form_is_open(operator: Client) -> None:
    made = schedule(**FULL)
    form = form_at(operator, change_of(made)) | {"argument-pages": "5"}
    with redis_at(OFF):
        page = str(operator.post(change_of(made), form).content.decode())
        assert "all as text" in problems(page)["arguments"]
        assert "cannot be reached" in page
        assert '"pages": "5"' in filled_in(page)["arguments"]
        written = form_at(operator, change_of(made))
        assert "argument-pages" not in written
        assert "cannot be reached" in operator.get(f"{LIST}add/").content.decode()
    made.refresh_from_db()
    assert made.arguments == FULL
    refused = {**written, "arguments": '{"site": "x", "pages": "5"}'}
    page = operator.post(change_of(made), refused).content.decode()
    assert "a whole number" in problems(page)["arguments"]
    operator.post(change_of(made), written)
    made.refresh_from_db()
    assert made.arguments == FULL


def test_a_viewer_reads_the_arguments(operator: Client) -> None:
    made = schedule(**{**FULL, "city": "<script>alert(1)</script>"})
    page = log_in_as("viewer").get(change_of(made)).content.decode()
    told = dict(zip(texts(page, ".cf-facts dt"), texts(page, ".cf-facts dd"), strict=True))
    assert told.keys() >= FULL.keys()
    assert (told["city"], told["pages"]) == ("<script>alert(1)</script>", "9")
    assert "<script>alert(1)" not in page
    assert not {"site", "arguments"} & set(fields(page))
