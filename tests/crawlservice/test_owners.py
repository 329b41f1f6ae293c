"""Owners of spiders: in lists, in the API, and as receivers of alerts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from msgspec.structs import replace

from crawlframe.frontier import Frontier
from crawlframe.spider.spider import SpiderInfo
from crawlservice.alerts.announcements import announce
from crawlservice.connections import clock
from crawlservice.models import Alert, AlertMessage, AlertNotice, Task
from crawlservice.monitoring.owners import all_owners, owners, owners_of, spiders_of
from tests.crawlservice.conftest import redis_at
from tests.crawlservice.programs import person, program
from tests.crawlservice.receiver import Receiver
from tests.crawlservice.test_alert_messages import add_rule, add_target, find
from tests.crawlservice.web import look, rows, texts


@pytest.fixture
def database(new_database: Callable[[str], str]) -> str:
    """SQLite only: all queries are by names of spiders."""
    return new_database("sqlite")


@pytest.fixture(autouse=True)
def owned(service: Frontier, shop: SpiderInfo) -> None:
    """Three spiders, of a user, of a group, and of nobody."""
    service.spiders.publish(
        [
            replace(shop, owners=("viewer", "chat")),
            replace(shop, name="news", owners=("data-team",)),
            replace(shop, name="free"),
        ]
    )
    for spider in ("shop", "news", "free", "gone"):
        Task.objects.create(spider=spider, seeds=b"")


def test_an_owner_is_a_user_or_a_group(as_role: Callable[[str], Client]) -> None:
    as_role("viewer")
    user = User.objects.get()
    assert (spiders_of("mine", user), spiders_of("@data-team", user)) == (["shop"], ["news"])
    user.groups.add(Group.objects.create(name="data-team"))
    assert spiders_of("mine", user) == ["news", "shop"]
    assert spiders_of("nobody", user) == []
    User.objects.update(username="other", email="chat")
    assert spiders_of("mine", User.objects.get()) == ["news", "shop"]


def test_owners_are_remembered_while_redis_does_not_answer() -> None:
    assert all_owners() == ["chat", "data-team", "viewer"]
    owners.clear()
    with redis_at("redis://127.0.0.1:1/0"):
        assert owners_of("news") == "data-team"


def test_lists_show_owners_and_are_filtered_by_them(as_role: Callable[[str], Client]) -> None:
    client = as_role("viewer")
    page = look(client, "/admin/spiders/")
    assert [row[:2] for row in rows(page)] == [
        ["free", ""], ["gone", ""], ["news", "data-team"], ["shop", "viewer, chat"],
    ]  # fmt: skip
    assert texts(page, "#cf-owner option") == ["all", "mine", "chat", "data-team", "viewer"]
    assert [row[0] for row in rows(look(client, "/admin/spiders/?owner=mine"))] == ["shop"]
    assert "No spider has this owner" in look(client, "/admin/spiders/?owner=nobody")
    assert "?owner=data-team" in look(client, "/admin/spiders/news")
    tasks = "/admin/crawlservice/task/"
    assert "viewer, chat" in look(client, tasks)
    for owner, links in (("mine", 1), ("data-team", 1), ("nobody", 0)):
        assert look(client, f"{tasks}?owner={owner}").count("/change/") >= links
        assert ("data-team</td>" in look(client, f"{tasks}?owner={owner}")) == (
            owner == "data-team"
        )


def test_without_owners_nothing_is_said_of_them(
    as_role: Callable[[str], Client], service: Frontier, shop: SpiderInfo
) -> None:
    service.spiders.publish([shop, replace(shop, name="news")])
    client = as_role("viewer")
    for place in ("/admin/spiders/", "/admin/spiders/shop", "/admin/crawlservice/task/"):
        assert "owner" not in look(client, place).lower()


def test_the_api_has_owners() -> None:
    api = program(person("viewer"), "read")

    def names(path: str, name: str, field: str, **query: str) -> list[str]:
        return sorted(row[field] for row in api.get(path, **query).json()[name])

    assert names("spiders", "spiders", "name", owner="mine") == ["shop"]
    assert names("tasks", "tasks", "spider", owner="data-team") == ["news"]
    assert names("tasks", "tasks", "spider", owner="nobody") == []
    assert api.get("spiders/shop").json()["owners"] == ["viewer", "chat"]
    assert api.get("spiders/free").json()["owners"] == []
    find(clock.now(), "news")
    assert api.get("alerts").json()["alerts"][0]["owners"] == ["data-team"]


def told() -> list[tuple[str, list[int]]]:
    rows = AlertMessage.objects.order_by("pk").values_list("target__name", "content")
    return [(name, sorted(content["numbers"])) for name, content in rows]


def test_an_owner_with_a_target_gets_the_alerts_of_the_spiders(receiver: Receiver) -> None:
    add_rule(add_target("all", receiver))
    for name in ("chat", "data-team", "off"):
        add_target(name, receiver)
    began = clock.now() - timedelta(hours=1)
    find(began, "shop", "news", "free")
    number = dict(Alert.objects.values_list("spider", "pk"))
    announce(began + timedelta(minutes=1))
    assert sorted(told()) == [
        ("all", sorted(number.values())),
        ("chat", [number["shop"]]),
        ("data-team", [number["news"]]),
    ]
    assert AlertMessage.objects.get(target__name="chat").content["new"][0]["owners"] == [
        "viewer", "chat",
    ]  # fmt: skip
    find(began + timedelta(minutes=2))
    announce(began + timedelta(minutes=3))
    assert sorted(told()[3:]) == sorted(told()[:3])


def test_a_rule_without_targets_tells_owners_only(receiver: Receiver) -> None:
    rule = add_rule()
    add_target("chat", receiver)
    began = clock.now() - timedelta(hours=1)
    find(began, "shop", "news")
    announce(began + timedelta(minutes=1))
    assert [name for name, _ in told()] == ["chat"]
    assert AlertNotice.objects.count() == 1  # the other one waits for a target
    rule.targets.add(add_target("all", receiver))
    announce(began + timedelta(minutes=2))
    assert [name for name, _ in told()] == ["chat", "all"]
