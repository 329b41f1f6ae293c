"""The palette of the admin: its results, and the commands that can be typed in it."""

from __future__ import annotations

import pytest
from django.test import Client
from selectolax.lexbor import LexborHTMLParser

from crawlservice.models import Host, Task
from crawlservice.tasks.submit import submit
from tests.crawlservice.web import log_in_as, login


def found(client: Client, text: str) -> dict[str, str]:
    """The places by their titles."""
    page = client.get("/admin/search/", {"extended": "1", "s": text}).content.decode()
    links = LexborHTMLParser(page).css("#command-results-list a")
    return {link.attributes["data-title"] or "": link.attributes["href"] or "" for link in links}


@pytest.fixture
def running(ended_task: Task) -> Task:
    Host.objects.create(name="www.ulm.example")
    return submit("shop", {"city": "Ulm"})


def test_the_first_result_is_meant(running: Task) -> None:
    client = login(is_superuser=True)
    for text, title, place in (
        ("2", "shop #2", "/admin/crawlservice/task/2/change/"),
        ("task 2", "shop #2", "/admin/crawlservice/task/2/change/"),
        ("PAUSE 2", "Pause", "/admin/crawlservice/task/2/change/#cf-pause"),
        ("task cancel 2", "Cancel", "/admin/crawlservice/task/2/change/#cf-cancel"),
        ("retry 1", "Retry failed", "/admin/crawlservice/task/1/change/#cf-retry"),
        ("submit sho", "Submit", "/admin/submit/?spider=shop"),
        ("sho", "shop", "/admin/spiders/shop"),
        ("www.ulm", "www.ulm.example", "/admin/crawlservice/host/1/change/"),
        ("alert r", "Alert rules", "/admin/crawlservice/alertrule/"),
        ("/b?c=d", "/b?c=d", "/admin/crawlservice/page/?q=%2Fb%3Fc%3Dd"),
    ):  # fmt: skip
        shown = found(client, text)
        assert next(iter(shown.items())) == (title, place)


def test_other_texts_find_nothing(running: Task) -> None:
    client = login(is_superuser=True)
    for text in ("", " ", "\0", "pause 999", "9" * 30, "x" * 5000, "pause", "%", "🦊"):
        assert found(client, text) == {}, text


def test_a_viewer_finds_only_what_may_be_seen(running: Task) -> None:
    client = log_in_as("viewer")
    assert [*found(client, "pause 2")] == ["shop #2"]
    assert [*found(client, "shop")] == ["shop"]
    assert found(client, "users") == {}


def test_only_buttons_of_the_page_are_offered(running: Task) -> None:
    Task.objects.filter(pk=running.pk).update(state=Task.State.CANCELLING, ne=1)
    assert [*found(login(is_superuser=True), "retry 2")] == ["shop #2"]
