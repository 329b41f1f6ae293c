"""Fields for names of spiders offer the known ones, and need no Redis for it."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from django.test import Client
from selectolax.lexbor import LexborHTMLParser

from crawlservice.models import AlertRule, Task
from tests.crawlservice.conftest import redis_at
from tests.crawlservice.web import log_in_as

PAGES = [
    "errors/", "errors/retry/", "crawlservice/schedule/add/", "crawlservice/webhook/add/",
    "crawlservice/alertrule/add/", "crawlservice/export/add/", "crawlservice/proxysource/add/",
]  # fmt: skip
SEARCHED = ["task", "schedule", "watch", "proxysource"]


@pytest.fixture
def client(ended_task: Task) -> Client:
    Task.objects.create(spider='gone "one"', seeds=b"")
    return log_in_as("administrator")


def names(client: Client) -> list[str | None]:
    found = LexborHTMLParser(client.get("/admin/spider-names/").content.decode())
    return [one.attributes["value"] for one in found.css("option")]


def test_published_spiders_and_those_with_tasks_are_offered(client: Client) -> None:
    assert names(client) == ['gone "one"', "shop"]
    with redis_at("redis://127.0.0.1:1/0"):
        assert names(client) == ['gone "one"', "shop"]
    assert names(Client(SERVER_NAME="localhost")) == []


@pytest.mark.parametrize("away", [False, True])
def test_every_field_has_the_list(client: Client, away: bool) -> None:
    with redis_at("redis://127.0.0.1:1/0") if away else nullcontext():
        for path in PAGES:
            page = LexborHTMLParser(client.get(f"/admin/{path}").content.decode())
            assert len(page.css("#cf-spiders[hx-get='/admin/spider-names/']")) == 1, path
            fields = page.css("input:not([type=hidden])[name^=spider]")
            assert [one.attributes.get("list") for one in fields] == ["cf-spiders"], path
        for model in SEARCHED:
            page = LexborHTMLParser(client.get(f"/admin/crawlservice/{model}/").content.decode())
            assert page.css_first("#searchbar"), model
            assert len(page.css("#cf-spiders")) == 1, model


def test_a_rule_takes_the_lines_and_one_more(client: Client) -> None:
    given = {"name": "r", "spiders": ["shop\nnews\n", "blog"], "least_severity": "1"}
    given |= {"timezone": "UTC", "group_minutes": "5", "repeat_hours": "24"}
    page = client.post("/admin/crawlservice/alertrule/add/", given)
    assert page.status_code == 302
    assert AlertRule.objects.get().spiders == ["shop", "news", "blog"]
