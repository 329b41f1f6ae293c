"""The web for tests: clients that are logged in, and tables as texts."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from selectolax.lexbor import LexborHTMLParser

from crawlservice.alerts import dashboard_summary
from crawlservice.monitoring import charts, overview


def cells(page: str, column: str) -> list[str]:
    """The texts of one column of a list."""
    found = LexborHTMLParser(page).css(f"#result_list .field-{column}")
    return [" ".join(cell.text().split()) for cell in found]


def login(**fields: Any) -> Client:
    client = Client(SERVER_NAME="localhost", raise_request_exception=True)
    client.force_login(User.objects.create(username="someone", is_staff=True, **fields))
    return client


def login_as(role: str) -> tuple[Client, User]:
    """A client with a new user of this role, and the user."""
    client = login()
    user = User.objects.get(username="someone")
    user.groups.add(Group.objects.get(name=role))
    return client, user


def log_in_as(role: str) -> Client:
    """A client with a user of this role, named after it: several may exist at a time."""
    user = User.objects.create(username=role, is_staff=True)
    user.groups.add(Group.objects.get(name=role))
    client = Client(SERVER_NAME="localhost")
    client.force_login(user)
    return client


def texts(page: str, selector: str) -> list[str]:
    """The texts of the elements that a CSS selector finds."""
    return [" ".join(found.text().split()) for found in LexborHTMLParser(page).css(selector)]


def tiles(page: str) -> dict[str, str]:
    """The numbers of a page by their names."""
    return dict(zip(texts(page, ".cf-tiles dt"), texts(page, ".cf-tiles dd"), strict=True))


def rows(page: str, selector: str = "tbody tr") -> list[list[str]]:
    """The same for rows, as the texts of their cells."""
    found = LexborHTMLParser(page).css(selector)
    return [[" ".join(cell.text().split()) for cell in row.css("td")] for row in found]


def look(client: Client, place: str = "/admin/", status: int = 200) -> str:
    """A page, with numbers of now; its status must be this."""
    for cached in (
        dashboard_summary.snapshot,
        overview.snapshot,
        overview.hosts,
        charts.of_cluster,
    ):
        cached.clear()
    answer = client.get(place)
    assert answer.status_code == status, (place, answer.status_code)
    return str(answer.content.decode())


def counted(client: Client, place: str = "/admin/") -> tuple[str, int]:
    """A page, and how many queries it costs."""
    with CaptureQueriesContext(connection) as queries:
        page = look(client, place)
    return page, len(queries)


def act(client: Client, place: str, action: str, *rows: Any) -> str:
    """The list after an action on these rows."""
    form = {"action": action, "_selected_action": [str(row.pk) for row in rows]}
    return str(client.post(place, form, follow=True).content.decode())
