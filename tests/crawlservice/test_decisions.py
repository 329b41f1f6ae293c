"""An operator decides about a version that nodes have refused because it loses data."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from crawlframe.frontier import Frontier
from crawlframe.frontier.cluster.decisions import Decision
from crawlservice.models import Action
from tests.crawlservice.programs import person, program

pytestmark = [pytest.mark.usefixtures("orm"), pytest.mark.databases("sqlite")]
VERBS = pytest.mark.parametrize("verb", ["accept", "refuse"])
CODE = {"version": "1f00", "state": "refused", "candidate": "2a00"}


@pytest.fixture
def asking(join: Callable[..., int]) -> int:
    """A node that asks about a version, next to one that has refused it for good."""
    join("beta", version="1f00", state="refused", candidate="3c00", problem="shop.py:1: x")
    return join("alpha", **CODE, asks=True, problem="shop.price: lost 12 of 12")


def written() -> list[str]:
    return [action.verb for action in Action.objects.exclude(verb="login")]


def test_the_commands(asking: int, service: Frontier) -> None:
    with pytest.raises(CommandError, match=r"version '3c00'; .* 2a00$"):
        call_command("node", "accept", "3c00")
    out = StringIO()
    call_command("node", "refuse", "2a00", stdout=out)
    assert "alpha: version 2a00 is refused" in out.getvalue()
    assert "node accept 2a00" in out.getvalue()
    assert service.decisions.of("2a00") == Decision(False, "a command")
    call_command("node", "accept", "2a00", stdout=out)
    assert "version 2a00 goes live on alpha" in out.getvalue()
    assert service.decisions.of("2a00") == Decision(True, "a command")
    assert service.decisions.of("3c00") is None
    assert written() == ["accept version", "refuse version"]


@VERBS
@pytest.mark.parametrize(("role", "may"), [("submitter", False), ("operator", True)])
def test_the_page_of_the_node_has_buttons(
    asking: int,
    service: Frontier,
    as_role: Callable[[str], Client],
    role: str,
    may: bool,
    verb: str,
) -> None:
    client = as_role(role)
    page = client.get(f"/admin/crawlservice/generation/{asking}/change/").content.decode()
    assert "Version 2a00 loses data on kept pages" in page
    assert "shop.price: lost 12 of 12" in page
    assert (f"cf-{verb}" in page) == may
    place = f"/admin/crawlservice/generation/{asking}/{verb}/"
    assert client.get(place).status_code == 405
    assert client.post(place, {"version": "2a00"}).status_code == (302 if may else 403)
    assert service.decisions.of("2a00") == (Decision(verb == "accept", role) if may else None)
    assert written() == [f"{verb} version"] * may


@VERBS
def test_a_version_that_no_node_asks_about(
    asking: int, service: Frontier, as_role: Callable[[str], Client], verb: str
) -> None:
    place = f"/admin/crawlservice/generation/{asking}/{verb}/"
    answer = as_role("operator").post(place, {"version": "9f00"}, follow=True)
    assert "no node asks whether to run version" in answer.content.decode()
    assert service.decisions.of("9f00") is None


def test_a_refused_version_can_still_be_accepted(
    join: Callable[..., int], service: Frontier, as_role: Callable[[str], Client]
) -> None:
    node = join("alpha", **CODE, refused_by="ann", problem="shop.price: lost 12 of 12")
    client = as_role("operator")
    page = client.get(f"/admin/crawlservice/generation/{node}/change/").content.decode()
    assert "Refused by ann; 1f00 stays live" in page
    assert "cf-accept" in page
    assert "cf-refuse" not in page
    assert "refused by ann" in client.get("/admin/crawlservice/generation/").content.decode()
    out = StringIO()
    call_command("node", "list", stdout=out)
    assert "refused: 2a00, by ann" in out.getvalue()
    with pytest.raises(CommandError, match="no node asks"):
        call_command("node", "refuse", "2a00")
    call_command("node", "accept", "2a00", stdout=StringIO())
    assert service.decisions.of("2a00") == Decision(True, "a command")


@VERBS
@pytest.mark.parametrize(
    ("role", "scope", "status"),
    [("viewer", "operate", 403), ("operator", "submit", 403), ("operator", "operate", 200)],
)
def test_the_api(
    asking: int, service: Frontier, role: str, scope: str, status: int, verb: str
) -> None:
    caller = program(person(role), scope)
    answer = caller.post(f"versions/2a00/{verb}")
    assert answer.status_code == status
    assert (service.decisions.of("2a00") is not None) == (status == 200)
    if status == 200:
        assert answer.json() == ["alpha"]
        assert caller.post(f"versions/9f00/{verb}").status_code == 422
        assert written() == [f"{verb} version"]
