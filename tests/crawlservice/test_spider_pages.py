"""The list of spiders, and the page of one: also of spiders that no node publishes now."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from selectolax.lexbor import LexborHTMLParser

from crawlframe.frontier import Frontier
from crawlframe.render.knowledge import STREAK, Lesson, URLTemplate
from crawlframe.render.yielded import Taught
from crawlservice.models import Action, DisabledSpider, Page, Profile, Schedule, Task
from crawlservice.tasks import spider_runs
from crawlservice.tasks.spider_switch import disable
from tests.crawlservice.web import log_in_as, look, rows, texts

both = pytest.mark.databases("sqlite", "postgres")

AddPage = Callable[..., Page]


def ran(spider: str = "shop", **fields: Any) -> Task:
    """An ended task."""
    at = timezone.now()
    values: dict[str, Any] = {
        "state": Task.State.FINISHED,
        "outcome": Task.Outcome.FINISHED,
        "seeds": b"",
    }
    values |= {"created_at": at - timedelta(seconds=90), "finished_at": at, "settings": {}}
    return Task.objects.create(spider=spider, **{**values, **fields})


@both
def test_every_spider_is_listed_with_its_last_run(published: Frontier) -> None:
    for n in range(3):
        ran(items=n)
    ran("gone", outcome=Task.Outcome.FAILED)
    disable("asleep", "on holiday", {"command": True})
    page = look(log_in_as("viewer"), "/admin/spiders/")
    found = {row[0].split()[0]: row for row in rows(page)}
    assert list(found) == ["asleep", "gone", "shop"]
    assert "on holiday" in found["asleep"][0]
    assert found["gone"][2] == "failed"
    assert found["gone"][-1] == "no node has it now"
    assert (found["shop"][2], found["shop"][4], found["shop"][-1]) == ("finished", "2", "published")


@pytest.mark.usefixtures("dead_redis")
def test_without_redis_the_list_says_what_is_unknown(service: Frontier) -> None:
    ran("gone")
    page = look(log_in_as("viewer"), "/admin/spiders/")
    assert "Redis does not answer" in page
    assert rows(page)[0][0] == "gone"


def test_runs_are_compared_with_the_one_before(published: Frontier, add_page: AddPage) -> None:
    first, second = ran(items=10, nf=3), ran(items=4, nf=2, ne=2)
    running = ran(state=Task.State.RUNNING, outcome="", finished_at=None)
    add_page(first, b"a", version="1f00")
    add_page(second, b"b", version="2f00")
    found = spider_runs.runs("shop")
    assert [run.task for run in found] == [running.pk, second.pk, first.pk]
    assert (found[1].items_change, found[1].errors_change, found[1].version) == (-6, 2, "2f00")
    assert found[2].items_change is None
    assert (found[0].seconds, found[0].items_change) == (None, None)
    chart = spider_runs.points(found)
    assert chart["items"] == [10, 4]
    assert chart["errors"] == [0, 2]
    assert chart["seconds"] == [90.0, 90.0]
    assert [mark["label"] for mark in chart["marks"]] == ["1f00", "2f00"]


def test_the_latest_runs_are_compared_with_one_that_is_not_shown(service: Frontier) -> None:
    for items in (7, 5, 5):
        ran(items=items)
    assert [run.items_change for run in spider_runs.runs("shop", count=2)] == [0, -2]


def test_the_coverage_of_the_fields_that_say_most(service: Frontier) -> None:
    shares = [
        {"url": 1.0, "price": 1.0, "old|price": 0.2, "a": 1.0, "b": 1.0, "c": 1.0},
        {"url": 1.0, "old|price": 0.2, "a": 1.0, "b": 1.0, "c": 1.0},  # no item has a price
        {},  # no items
    ]
    for coverage in shares:
        task = ran(items=3)
        Profile.objects.create(task=task, spider="shop", coverage=coverage, content=b"")
    running = ran(state=Task.State.RUNNING, outcome="", finished_at=None)
    Profile.objects.create(task=running, spider="shop", coverage={"new": 0.5}, content=b"")
    found = spider_runs.runs("shop")
    assert spider_runs.covered_fields(found) == ["price", "old|price", "a", "b", "c"]
    chart = spider_runs.points(found)
    assert chart["coverage price"] == [100.0, 0.0, None]
    assert chart["coverage old/price"] == [20.0, 20.0, None]
    client = log_in_as("viewer")
    (canvas,) = LexborHTMLParser(look(client, "/admin/spiders/shop")).css("[data-series^=coverage]")
    series = str(canvas.attributes["data-series"]).split("|")
    assert series[0] == "coverage price"
    assert str(canvas.attributes["data-labels"]).split("|")[:2] == ["price", "old/price"]
    points = client.get("/admin/spider-runs/shop").json()["points"]
    assert {*series} < points.keys()


def test_the_page_of_a_spider_that_nobody_publishes(service: Frontier) -> None:
    ran("gone", items=3)
    Schedule.objects.create(name="night", spider="gone", every=60)
    client = log_in_as("viewer")
    page = look(client, "/admin/spiders/gone")
    assert "No node publishes this spider now" in page
    assert "night" in page
    assert "Run now" not in page
    points = client.get("/admin/spider-runs/gone").json()["points"]
    assert points["items"] == [3]
    for path in ("spiders/unknown", "spiders/a%00b", "spider-runs/a%00b"):
        assert client.get(f"/admin/{path}").status_code == 404


def test_any_name_has_its_page(service: Frontier) -> None:
    name = 'a/b c?d#e%"<é'
    ran(name)
    client = log_in_as("viewer")
    (link,) = LexborHTMLParser(look(client, "/admin/spiders/")).css("tbody td:first-child a")
    page = look(client, str(link.attributes["href"]))
    assert "a/b c?d#e%&quot;&lt;é" in page
    (chart,) = LexborHTMLParser(page).css("[data-chart-url]")
    assert len(client.get(str(chart.attributes["data-chart-url"])).json()["points"]["at"]) == 1


def test_operators_disable_and_enable_it_there(published: Frontier) -> None:
    client, place = log_in_as("operator"), "/admin/spiders/shop"
    assert "Run now" not in look(client, place) or "submit/?spider=shop" in look(client, place)
    client.post(place, {"verb": "disable", "reason": ""})
    assert not DisabledSpider.objects.exists()
    client.post(place, {"verb": "disable", "reason": "<b>broken</b>"})
    page = look(client, place)
    assert "&lt;b&gt;broken" in page
    assert "Run now" not in page
    assert "disabled" in texts(look(client, "/admin/spiders/"), ".cf-badge")
    chosen = client.get("/admin/submit/?spider=shop", follow=True).content.decode()
    assert "is disabled" in chosen
    client.post(place, {"verb": "enable"})
    assert not DisabledSpider.objects.exists()
    assert [*Action.objects.order_by("pk").values_list("verb", "user__username")][1:] == [
        ("disable spider", "operator"),
        ("enable spider", "operator"),
    ]


def test_other_roles_cannot_disable_a_spider(published: Frontier) -> None:
    for role in (
        "viewer",
        "submitter",
    ):
        client = log_in_as(role)
        assert "cf-disable" not in look(client, "/admin/spiders/shop")
        sent = client.post("/admin/spiders/shop", {"verb": "disable", "reason": "no"})
        assert sent.status_code == 403
        assert not DisabledSpider.objects.exists()


PRODUCTS = URLTemplate("parse", "shop.example/product/*")


def taught(frontier: Frontier, *lessons: Lesson, template: URLTemplate = PRODUCTS) -> None:
    frontier.renders.learn("shop", [Taught(template, lesson, True) for lesson in lessons])


def test_the_page_of_a_spider_shows_which_pages_need_the_browser(published: Frontier) -> None:
    client = log_in_as("viewer")
    assert "need the browser" not in look(client, "/admin/spiders/shop")
    taught(published, *[Lesson.NEEDED] * STREAK, Lesson.VAIN)
    taught(published, Lesson.STATIC, template=URLTemplate("parse_list", "shop.example/*"))
    page = look(client, "/admin/spiders/shop")
    found = [row[:6] for row in rows(page) if row[0].startswith("parse")]
    assert found == [
        ["parse", "shop.example/product/*", "browser", "0", "9 (100 %)", "1"],
        ["parse_list", "shop.example/*", "plain fetch", "1", "0 (0 %)", "0"],
    ]
    assert "Forget" not in page


def test_what_was_learned_can_be_forgotten(published: Frontier) -> None:
    ran()
    taught(published, Lesson.NEEDED)
    taught(published, Lesson.NEEDED, template=URLTemplate("parse", "shop.example/<b>"))
    client = log_in_as("operator")
    assert "shop.example/&lt;b&gt;" in look(client, "/admin/spiders/shop")
    order = {"verb": "forget", "template": "parse shop.example/product/*"}
    client.post("/admin/spiders/shop", order)
    assert [*published.renders.of("shop")] == [URLTemplate("parse", "shop.example/<b>")]
    action = Action.objects.latest("pk")
    assert (action.verb, action.detail) == (
        "forget rendering",
        {"spider": "shop", "template": "parse shop.example/product/*"},
    )
    page = client.post("/admin/spiders/shop", {"verb": "forget", "template": "x"}, follow=True)
    assert "is not a template" in page.content.decode()
    client.post("/admin/spiders/shop", {"verb": "forget"})
    assert published.renders.of("shop") == {}


def test_a_viewer_cannot_make_nodes_forget(published: Frontier) -> None:
    taught(published, Lesson.NEEDED)
    answer = log_in_as("viewer").post("/admin/spiders/shop", {"verb": "forget"})
    assert answer.status_code == 403
    assert len(published.renders.of("shop")) == 1
