"""The form that submits: fields of all types, errors at their fields, and the submitted task."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from crawlframe.frontier import Frontier
from crawlframe.spider.spider import describe
from crawlservice.models import Action, Task
from crawlservice.tasks.submit import submit
from tests.crawlservice.conftest import redis_at
from tests.crawlservice.forms import Typed, fields, filled_in, problems
from tests.crawlservice.web import login, login_as

FORM = "/admin/submit/?spider=typed"


@pytest.fixture
def admin(service: Frontier) -> Client:
    service.spiders.publish([describe(Typed)])
    return login(is_superuser=True)


def send(client: Client, **changes: str | None) -> str:
    """Sends the form with these changes; None: a switch that is off."""
    form = filled_in(client.get(FORM).content.decode()) | changes
    data = {
        name if name == "priority" else f"argument-{name}": value
        for name, value in form.items()
        if value is not None and name != "csrfmiddlewaretoken"
    }
    return str(client.post(FORM, data, follow=True).content.decode())


def test_spiders_are_offered_with_what_they_are(admin: Client) -> None:
    page = admin.get("/admin/submit/").content.decode()
    assert "Arguments of all kinds." in page
    assert 'href="?spider=typed"' in page


def test_each_argument_has_the_field_of_its_type(admin: Client) -> None:
    page = admin.get(FORM).content.decode()
    found = {name: f for name, f in fields(page).items() if not name.startswith("setting-")}
    types = {name: node.attributes.get("type") or node.tag for name, node in found.items()}
    del types["csrfmiddlewaretoken"]
    assert types == {
        "site": "text", "city": "text", "pages": "number", "ratio": "number", "kind": "select",
        "since": "date", "strict": "checkbox", "polite": "checkbox", "maybe": "select",
        "tags": "textarea", "extra": "textarea", "either": "text", "priority": "number",
        "labels": "textarea",
    }  # fmt: skip
    values = filled_in(page)
    shown = [values[name] for name in ("site", "city", "pages", "kind", "since", "either")]
    assert shown == ["", "Ulm", "3", "new", "", "0"]
    assert "polite" in values
    assert "strict" not in values
    assert "a whole number, at least 1, at most 9" in page


def test_unchanged_defaults_are_not_submitted(admin: Client) -> None:
    page = send(admin, site="x")
    task = Task.objects.get()
    assert "Submitted: typed #" in page
    assert task.arguments == {"site": "x"}
    assert (task.user is not None) == (task.priority == 0)
    action = Action.objects.exclude(verb="login").get()
    assert (action.verb, action.task) == ("submit", task)
    assert action.detail == {"spider": "typed", "arguments": {"site": "x"}}


def test_values_of_every_type(admin: Client) -> None:
    given = {
        "site": "http://x/", "city": "", "pages": "9", "ratio": "0.5", "kind": "3",
        "since": "2026-01-31", "strict": "on", "polite": None, "maybe": "false", "tags": "a, b",
        "extra": '{"a": [1]}', "either": "seven", "priority": "-7",
    }  # fmt: skip
    send(admin, **given)
    task = Task.objects.get()
    assert task.arguments == {
        "site": "http://x/", "city": "", "pages": 9, "ratio": 0.5, "kind": 3,
        "since": "2026-01-31", "strict": True, "polite": False, "maybe": False, "tags": ["a", "b"],
        "extra": {"a": [1]}, "either": "seven",
    }  # fmt: skip
    assert task.priority == -7


def test_a_task_is_cloned(admin: Client) -> None:
    arguments: dict[str, Any] = {
        "site": "http://x/?a=1&b=<2>", "city": "", "pages": 9, "kind": 3, "since": "2026-01-31",
        "strict": True, "polite": False, "maybe": True, "tags": ["a,b", "c"], "extra": {"ü": None},
    }  # fmt: skip
    task = submit("typed", arguments, priority=5)
    Task.objects.filter(pk=task.pk).update(arguments={**arguments, "gone": 1})
    page = admin.get(f"{FORM}&clone={task.pk}").content.decode()
    form = filled_in(page)
    data = {name if name == "priority" else f"argument-{name}": v for name, v in form.items()}
    admin.post(FORM, data)
    clone = Task.objects.exclude(pk=task.pk).get()
    assert clone.arguments == arguments
    assert clone.priority == 5


def test_errors_stand_at_their_fields(admin: Client) -> None:
    page = send(admin, pages="10", since="yesterday", extra="[1]", priority="101")
    found = problems(page)
    assert set(found) == {"site", "pages", "since", "extra", "priority"}
    assert "is required: " in found["site"]
    assert "at most 9" in found["pages"]
    assert filled_in(page)["pages"] == "10"  # the typed value is still there
    assert not Task.objects.exists()


def test_spiders_that_are_not_there(admin: Client) -> None:
    page = admin.get("/admin/submit/?spider=typd", follow=True).content.decode()
    assert "did you mean" in page
    with redis_at("redis://127.0.0.1:1/0"):
        page = admin.get("/admin/submit/").content.decode()
        assert "cannot be reached" in page
        assert "cannot be reached" in admin.get(FORM, follow=True).content.decode()


def test_only_who_may_submit_does(published: Frontier) -> None:
    client, user = login_as("viewer")
    for method in (client.get, client.post):
        assert method("/admin/submit/?spider=shop").status_code == 403
    client.logout()
    user.delete()
    client, user = login_as("submitter")
    client.post("/admin/submit/?spider=shop", {"argument-city": "Ulm", "priority": "0"})
    assert Task.objects.get().user == user
