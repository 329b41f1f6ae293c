"""An operator accepts a version that nodes have refused because it loses data."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from crawlframe.frontier import Frontier
from crawlservice.models import Action
from tests.crawlservice.programs import person, program

pytestmark = [pytest.mark.usefixtures("orm"), pytest.mark.databases("sqlite")]


@pytest.fixture
def asking(join: Callable[..., int]) -> int:
    """A node that asks about a version, next to one that has refused it for good."""
    join("beta", version="1f00", state="refused", candidate="3c00", problem="shop.py:1: x")
    code = {"version": "1f00", "state": "refused", "candidate": "2a00", "asks": True}
    return join("alpha", **code, problem="shop.price: lost 12 of 12")


def written() -> list[str]:
    return [action.verb for action in Action.objects.exclude(verb="login")]


def test_the_command(asking: int, service: Frontier) -> None:
    with pytest.raises(CommandError, match=r"version '3c00'; .* 2a00$"):
        call_command("node", "accept", "3c00")
    out = StringIO()
    call_command("node", "accept", "2a00", stdout=out)
    assert "version 2a00 goes live on alpha" in out.getvalue()
    assert service.acceptances.has("2a00")
    assert not service.acceptances.has("3c00")
    assert written() == ["accept version"]


@pytest.mark.parametrize(("role", "may"), [("submitter", False), ("operator", True)])
def test_the_page_of_the_node_has_a_button(
    asking: int, service: Frontier, as_role: Callable[[str], Client], role: str, may: bool
) -> None:
    client = as_role(role)
    page = client.get(f"/admin/crawlservice/generation/{asking}/change/").content.decode()
    assert "Version 2a00 loses data on kept pages" in page
    assert "shop.price: lost 12 of 12" in page
    assert ("cf-accept" in page) == may
    place = f"/admin/crawlservice/generation/{asking}/accept/"
    assert client.get(place).status_code == 405
    assert client.post(place, {"version": "2a00"}).status_code == (302 if may else 403)
    assert service.acceptances.has("2a00") == may
    assert written() == ["accept version"] * may


def test_a_version_that_no_node_asks_about(
    asking: int, service: Frontier, as_role: Callable[[str], Client]
) -> None:
    place = f"/admin/crawlservice/generation/{asking}/accept/"
    answer = as_role("operator").post(place, {"version": "9f00"}, follow=True)
    assert "no node asks whether to run version" in answer.content.decode()
    assert not service.acceptances.has("9f00")


@pytest.mark.parametrize(
    ("role", "scope", "status"),
    [("viewer", "operate", 403), ("operator", "submit", 403), ("operator", "operate", 200)],
)
def test_the_api(asking: int, service: Frontier, role: str, scope: str, status: int) -> None:
    caller = program(person(role), scope)
    answer = caller.post("versions/2a00/accept")
    assert answer.status_code == status
    assert service.acceptances.has("2a00") == (status == 200)
    if status == 200:
        assert answer.json() == ["alpha"]
        assert caller.post("versions/9f00/accept").status_code == 422
