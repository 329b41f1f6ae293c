"""The menu of the admin: its groups and entries, and the tabs of each."""

from __future__ import annotations

from django.contrib import admin
from django.test import Client
from selectolax.lexbor import LexborHTMLParser

from crawlservice.models import AliasRule, Export, Schedule, Task
from crawlservice.theme.menu import GROUPS, PAGES
from tests.crawlservice.web import log_in_as, login, texts

ALWAYS = ["Dashboard", "Tasks", "Spiders", "Items", "Pages", "Alerts", "Errors", "Hosts", "Nodes",
          "Access"]  # fmt: skip


def entries(client: Client, path: str = "/admin/") -> list[str]:
    """The entries, without the names of their icons."""
    return texts(client.get(path).content.decode(), "#nav-sidebar-apps a > span:last-child")


def tabs(client: Client, path: str) -> list[str]:
    return texts(client.get(path).content.decode(), "#tabs-items a")


def test_every_list_is_an_entry_or_a_tab() -> None:
    admin.autodiscover()
    tabs = {tab for some in GROUPS.values() for entry in some for tab in entry.tabs}
    assert tabs - {*PAGES} == {model._meta.model_name for model in admin.site._registry}
    assert len(GROUPS) == 5
    assert sum(map(len, GROUPS.values())) == 13


def test_an_entry_of_an_unused_feature_is_a_tab_of_its_neighbour(ended_task: Task) -> None:
    client = login(is_superuser=True)
    assert entries(client) == ALWAYS
    assert tabs(client, "/admin/spiders/") == ["Spiders", "Recipes", "Schedules", "Watches"]
    assert tabs(client, "/admin/crawlservice/export/") == [
        "Pages", "Dead letters", "Exports", "Webhooks",
    ]  # fmt: skip
    for end, buttons in (("", ["Add export"]), ("?q=x", ["Reset filters", "Add export"])):
        page = client.get(f"/admin/crawlservice/export/{end}").content.decode()
        assert texts(page, "#changelist a.cf-button") == buttons
    Schedule.objects.create(name="nightly", spider="shop", every=60)
    Export.objects.create(name="lake", what="items", target={"type": "file"})
    AliasRule.objects.create(origin="https://a.example", kind="query", rule={}, key="1")
    assert entries(client) == [*ALWAYS[:3], "Schedules", *ALWAYS[3:5], "Exports", *ALWAYS[5:]]
    assert tabs(client, "/admin/spiders/") == ["Spiders", "Recipes", "Aliases"]


def test_the_entry_and_the_tab_of_a_page_are_marked(ended_task: Task) -> None:
    client = login(is_superuser=True)
    pages: list[tuple[str, str, list[str]]] = [
        ("/admin/", "Dashboard", []),
        ("/admin/submit/", "Tasks", ["Submit"]),
        ("/admin/crawlservice/page/", "Pages", ["Pages"]),
        ("/admin/crawlservice/page/?state__exact=error&task=1", "Pages", ["Dead letters"]),
        ("/admin/crawlservice/item/", "Items", []),
        ("/admin/crawlservice/host/", "Hosts", ["Hosts"]),
        ("/admin/auth/user/add/", "Access", []),
    ]
    for path, entry, tab in pages:
        page = client.get(path).content.decode()
        assert texts(page, "#nav-sidebar-apps a.active > span:last-child") == [entry]
        assert texts(page, "#tabs-items a.active") == tab


def test_a_viewer_is_led_only_to_open_places(ended_task: Task) -> None:
    client = log_in_as("viewer")
    assert entries(client) == ALWAYS
    assert tabs(client, "/admin/crawlservice/task/") == []
    page = LexborHTMLParser(client.get("/admin/").content.decode())
    for place in page.css("#nav-sidebar-apps a"):
        assert client.get(place.attributes["href"] or "").status_code == 200
