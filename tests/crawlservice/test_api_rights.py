"""Rights of the API: roles, objects and actions, with tokens of every scope; and no address of the
whole web is open to strangers, except those listed here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.middleware.csrf import get_token
from django.test import Client, RequestFactory
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone

from crawlframe.frontier import Frontier
from crawlservice.accounts import tokens
from crawlservice.accounts.roles import ROLES
from crawlservice.models import Event, Generation, Host, Schedule, Task, Token
from crawlservice.tasks.submit import submit
from tests.crawlservice.programs import FAR, Program, person, program
from tests.crawlservice.test_api_tasks import ULM, error

SCOPES = ("read", "submit", "operate")
ROLE_NAMES = (*ROLES, "root", "")
READS = (
    "tasks",
    "tasks/{task}",
    "tasks/{task}/items",
    "tasks/{task}/pages",
    "tasks/{task}/export",
    "errors",
    "retries",
    "retries/count?spider=shop",
    "spiders",
    "spiders/shop",
    "nodes",
    "hosts",
    "hosts/shop.example",
    "schedules",
    "schedules/{schedule}",
    "eras",
    "events",
)
STEERS = ("pause", "resume", "cancel")
HOST_VERBS = ("pause", "resume", "forget-robots")

# (role, scope) -> whose tasks may be controlled. Only combinations that may control any.
STEERABLE = {
    **{
        (role, scope): {"own"}
        for role in ("submitter", "operator", "administrator", "root")
        for scope in ("submit", "operate")
    },
    **{(role, "operate"): {"own", "other"} for role in ("operator", "administrator", "root")},
}


@pytest.fixture
def other(published: Frontier) -> Task:
    Host.objects.create(name="shop.example")
    return submit("shop", {"city": "Ulm"}, user=person("submitter", "other"))


def status(answer: Any) -> int:
    """The status of an answer, after it was read and closed."""
    answer.close()
    number: int = answer.status_code
    return number


def test_rights_to_read(other: Task) -> None:
    night = Schedule.objects.create(name="night", spider="shop", every=60)
    for role in ROLE_NAMES:
        caller = program(person(role), "read" if role else "operate")
        for path in READS:
            answer = caller.get(path.format(task=other.pk, schedule=night.pk))
            assert status(answer) == (200 if role else 403), (role, path)
        contents = caller.get(f"tasks/{other.pk}/kept-pages/export")  # may be of persons
        may = role in ("operator", "administrator", "root")
        assert status(contents) == (200 if may else 403)


def test_rights_to_submit(other: Task) -> None:
    for role in ROLE_NAMES:
        user = person(role)
        for scope in SCOPES:
            caller = program(user, scope)
            may = scope != "read" and role not in ("viewer", "")
            before = Task.objects.count()
            for path, name in (("tasks", "arguments"), ("/new_task", "args")):
                answer = caller.post(path, {"spider": "shop", name: {"city": "Ulm"}})
                assert status(answer) == (201 if may else 403), (role, scope, path)
            assert Task.objects.count() == before + (2 if may else 0)


def test_rights_to_steer_own_and_other_tasks(published: Frontier) -> None:
    other = person("submitter", "other")
    for role in ROLE_NAMES:
        user = person(role)
        users = {"own": user, "other": other, "nobody's": None}
        for scope in SCOPES:
            caller = program(user, scope)
            may = STEERABLE.get((role, scope), set())
            for whose, owner in users.items():
                task = submit("shop", {"city": "Ulm"}, user=owner)
                allowed = ("other" if owner is None else whose) in may
                for answer in (
                    caller.patch(f"tasks/{task.pk}", {"delay": 9.0}),
                    *(caller.post(f"tasks/{task.pk}/{verb}") for verb in STEERS),
                ):
                    path = answer.request["PATH_INFO"]
                    assert status(answer) == (200 if allowed else 403), (role, scope, path, whose)
                now = Task.objects.get(pk=task.pk)
                assert (now.state != task.state) == allowed
                assert (now.published_limits is not None) == allowed


def test_who_may_decide_about_spiders_schedules_errors_and_hosts(published: Frontier) -> None:
    """Operators, with tokens of scope operate."""
    for role in ROLE_NAMES:
        user = person(role)
        Schedule.objects.all().delete()
        night = Schedule.objects.create(
            name="night", spider="shop", every=60, arguments={"city": "Ulm"}, overlap="allow"
        )
        for scope in ("submit", "operate"):
            caller = program(user, scope)
            may = scope == "operate" and role in ("operator", "administrator", "root")
            day = {"name": "day", "spider": "shop", "every": 60, "arguments": {"city": "Ulm"}}
            for answer, good in (
                (caller.post("spiders/shop/disable", {"reason": "no"}), 200),
                (caller.post("spiders/shop/enable"), 200),
                (caller.post("retries", {"spider": "shop"}), 409),  # there is nothing to retry
                (caller.post("retries/7/stop"), 404),
                (caller.post("schedules", day), 201),
                (caller.patch(f"schedules/{night.pk}", {"priority": 1}), 200),
                (caller.post(f"schedules/{night.pk}/disable"), 200),
                (caller.post(f"schedules/{night.pk}/enable"), 200),
                (caller.post(f"schedules/{night.pk}/run"), 200),
                (caller.delete(f"schedules/{night.pk}"), 204),
                *((caller.post(f"hosts/a.example/{verb}"), 200) for verb in HOST_VERBS),
                (caller.put("hosts/a.example/order", {"delay": 1.0}), 200),
                (caller.delete("hosts/a.example/order"), 200),
            ):
                path = answer.request["PATH_INFO"]
                assert status(answer) == (good if may else 403), (role, scope, path)


def test_a_token_does_not_outlive_the_rights_of_its_user(other: Task) -> None:
    user = person("operator")
    caller = program(user)
    assert status(caller.post(f"tasks/{other.pk}/pause")) == 200
    user.groups.clear()
    assert status(caller.post(f"tasks/{other.pk}/resume")) == 403
    user.user_permissions.add(Permission.objects.get(codename="view_task"))
    assert status(caller.get("tasks")) == 200
    assert status(caller.post(f"tasks/{other.pk}/resume")) == 403
    assert status(caller.get("nodes")) == 403


def dead_tokens() -> Iterator[tuple[str, str]]:
    """Secrets of invalid tokens, with their names."""
    user = person("root")
    _, revoked = tokens.make(user, "x", "operate")
    tokens.revoke(Token.objects.all())
    late, expired = tokens.make(user, "x", "operate", 1)
    Token.objects.filter(pk=late.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    _, sleeping = tokens.make(person("root", "gone", is_active=False), "x", "operate")
    token, good = tokens.make(user, "x", "operate")
    yield "revoked", revoked
    yield "expired", expired
    yield "of an inactive user", sleeping
    yield "its digest", token.digest
    yield "shortened", good[:-1]
    yield "without its prefix", good[3:]
    yield "made up", "cf_" + "A" * 43
    yield "empty", ""


def test_dead_tokens_open_nothing(other: Task) -> None:
    for name, secret in dead_tokens():
        caller = Program(secret or " ")
        for path in READS:
            answer = caller.get(path.format(task=other.pk, schedule=1))
            told = error(answer, 401, "unauthorized")
            assert answer["WWW-Authenticate"] == "Bearer", name
            assert not secret or secret not in told["message"]
        assert status(caller.post("tasks", ULM)) == 401, name
        for verb in STEERS:
            assert status(caller.post(f"tasks/{other.pk}/{verb}")) == 401, name
    assert Task.objects.count() == 1
    assert not Token.objects.exclude(used_at=None).exists()


def test_only_the_scheme_bearer_counts(other: Task) -> None:
    _, secret = tokens.make(person("root"), "x", "read")
    for header, expected in (
        (f"Bearer {secret}", 200),
        (f"bearer  {secret}", 200),
        (f"Basic {secret}", 401),
        (secret, 401),
        (f"Token {secret}", 401),
    ):
        client = Client(SERVER_NAME="localhost", headers={"Authorization": header})
        assert status(client.get("/api/v1/tasks")) == expected, header
    client = Client(SERVER_NAME="localhost")
    assert status(client.get("/api/v1/tasks", {"token": secret})) == 401


# -- browsers --------------------------------------------------------------------------------------


JSON: Any = {"data": "", "content_type": "application/json"}


@pytest.fixture
def browser(other: Task) -> Client:
    client = Client(SERVER_NAME="localhost", enforce_csrf_checks=True)
    client.force_login(person("operator", is_staff=True))
    return client


def test_a_browser_reads_with_its_login_and_changes_with_its_csrf_token(
    browser: Client, other: Task
) -> None:
    assert status(browser.get("/api/v1/tasks")) == 200
    pause = f"/api/v1/tasks/{other.pk}/pause"
    told = error(browser.post(pause, **JSON), 403, "forbidden")
    assert "CSRF" in told["message"]
    error(browser.post("/api/v1/tasks", json.dumps(ULM), "application/json"), 403, "forbidden")
    assert Task.objects.get().state == "running"

    request = RequestFactory().get("/")
    csrf = get_token(request)
    browser.cookies["csrftoken"] = request.META["CSRF_COOKIE"]
    assert status(browser.post(pause, **JSON, headers={"X-CSRFToken": csrf})) == 200
    assert status(browser.post(pause, **JSON, headers={"X-CSRFToken": "x" * 32})) == 403


def test_a_login_does_not_replace_a_wrong_token(browser: Client) -> None:
    header = {"Authorization": "Bearer cf_x"}
    assert status(browser.get("/api/v1/tasks", headers=header)) == 401


def test_the_docs_need_a_login_or_a_token(browser: Client, published: Frontier) -> None:
    stranger = Client(SERVER_NAME="localhost")
    html = {"Accept": "text/html"}
    away = stranger.get("/api/v1/docs", headers=html)
    assert (away.status_code, away["Location"]) == (302, "/admin/login/?next=/api/v1/docs")
    error(stranger.get("/api/v1/openapi.json"), 401, "unauthorized")
    assert status(browser.get("/api/v1/docs", headers=html)) == 200
    assert browser.get("/api/v1/openapi.json").json()["info"]["title"] == "Crawlframe"
    assert status(program(person("viewer"), "read").get("openapi.json")) == 200


# -- every address ---------------------------------------------------------------------------------

# Addresses open to strangers, with the reason.
OPEN = {
    "/setup/1/": "404 unless it is the link that the first start printed",
    "/": "leads to the login",
    "/admin/login/": "the login itself",
    "/admin/logout/": "only ends what is there",
    "/admin/jsi18n/": "words of the admin's scripts",
    "/healthz": "for who watches the service; tells yes or no",
    "/readyz": "the same",
    "/i18n/setlang/": "chooses a language",
    "/api/v1/": "there is nothing",
    "/.well-known/http-message-signatures-directory": "public keys, for sites that verify us",
}
VALUES: dict[str, str] = {"app_label": "crawlservice", "content_type_id": "1", "url": "x"}


def addresses(resolver: Any = None, before: str = "/") -> Iterator[str]:
    """Every address of the URLconf, with a value for each parameter."""
    for pattern in (resolver or get_resolver()).url_patterns:
        path = before + _filled(str(pattern.pattern))
        if isinstance(pattern, URLResolver):
            yield from addresses(pattern, path)
        else:
            assert isinstance(pattern, URLPattern)
            yield path


def _filled(pattern: str) -> str:
    named = re.sub(r"\(\?P<(\w+)>[^)]*\)", lambda m: VALUES.get(m[1], "1"), pattern)
    filled = re.sub(r"<(?:\w+:)?(\w+)>", lambda m: VALUES.get(m[1], "1"), named)
    return re.sub(r"[\^$\\]|\(\?:|\)|\?", "", filled)


def test_the_walk_finds_what_there_is() -> None:
    found = set(addresses())
    assert len(found) > 60
    expected = {"/api/v1/tasks/1/pause", "/new_task", "/metrics", "/api/v1/events", "/api/v1/docs"}
    expected |= {"/admin/crawlservice/task/", "/admin/crawlservice/token/add/"}
    assert expected <= found


def test_no_address_answers_a_stranger(ended_task: Task) -> None:
    """Rows with number 1 exist, so that nothing is refused only because it is missing."""
    Schedule.objects.create(pk=1, name="night", spider="shop", every=60)
    Generation.objects.create(pk=1, node="n", machine="m", pid=1)
    tokens.make(person("root"), "x", "read")
    assert Task.objects.filter(pk=1).exists()
    assert Event.objects.filter(pk=1).exists()
    client = Client(SERVER_NAME="localhost", REMOTE_ADDR=FAR)
    answered = set()
    for path in addresses():
        answers = [client.get(path), client.post(path), client.put(path), client.delete(path)]
        known = [answer for answer in answers if answer.status_code != 405]
        if not known or not all(map(refused, known)):
            answered.add(path)
    assert answered - set(OPEN) == set()


def refused(answer: Any) -> bool:
    at_login = answer.status_code == 302 and "/login/?next=" in answer["Location"]
    return at_login or answer.status_code in (401, 403)


def test_the_exceptions_are_still_there() -> None:
    assert set(OPEN) <= set(addresses())


def test_no_static_file_lies_outside_its_directories() -> None:
    client = Client(SERVER_NAME="localhost", REMOTE_ADDR=FAR)
    for path in ("/static/../settings.py", "/static/%2e%2e/settings.py", "/static//etc/passwd"):
        assert client.get(path).status_code == 404


def test_a_user_without_a_role_may_nothing(published: Frontier) -> None:
    """A user without any role has a login and a token, and sees nothing."""
    user = User.objects.create(username="plain", is_staff=True)
    client = Client(SERVER_NAME="localhost")
    client.force_login(user)
    for path in ("tasks", "nodes", "spiders", "schedules", "eras", "events"):
        assert status(client.get(f"/api/v1/{path}")) == 403
