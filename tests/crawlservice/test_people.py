"""People: the setup link, throttled logins, and roles, which users cannot raise for themselves."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import Client
from django.utils import timezone

from crawlframe.frontier import Frontier
from crawlservice.accounts import roles, setup_link
from crawlservice.accounts.proxies import check_proxies
from crawlservice.admin.parts.read_only import ReadOnly
from crawlservice.models import Action, SetupLink, Token
from tests.conftest import CHECKOUT
from tests.crawlservice.web import counted

PASSWORD = "correct horse 9"
FORM = {"username": "ada", "password1": PASSWORD, "password2": PASSWORD}
USERS = "/admin/auth/user/"


@pytest.fixture(autouse=True)
def cheap_passwords(settings_with: Callable[..., None]) -> None:
    """Cheap hashes: otherwise each login takes half a second."""
    settings_with(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"])


@pytest.fixture
def browser(service: Frontier) -> Client:
    return Client(SERVER_NAME="localhost", REMOTE_ADDR="192.0.2.7", enforce_csrf_checks=False)


def person(name: str, role: str = "") -> User:
    user = User.objects.create_user(name, password=PASSWORD)
    roles.give_role(user, role)
    return User.objects.get(pk=user.pk)


def login(user: User) -> Client:
    client = Client(SERVER_NAME="localhost")
    client.force_login(user)
    return client


# The setup link


def test_the_setup_link_makes_one_administrator_and_logs_in(browser: Client) -> None:
    path = f"/{setup_link.make()}"
    assert "first administrator" in browser.get(path).content.decode()
    assert not User.objects.exists()
    weak = browser.post(path, {**FORM, "password1": "ada", "password2": "ada"})
    assert "too short" in weak.content.decode()
    assert not User.objects.exists()
    assert browser.post(path, FORM)["Location"] == "/admin/"
    user = User.objects.get()
    assert (user.username, user.is_superuser, user.is_staff) == ("ada", True, True)
    assert user.check_password(PASSWORD)
    assert browser.get(USERS).status_code == 200
    assert [row.verb for row in Action.objects.order_by("id")] == ["setup", "login"]


def test_it_works_once(browser: Client) -> None:
    path = f"/{setup_link.make()}"
    browser.post(path, FORM)
    User.objects.update(is_active=False)  # as if there had never been one
    again = Client(SERVER_NAME="localhost").post(path, {**FORM, "username": "eve"})
    assert again.status_code == 404
    assert "This link does not work" in again.content.decode()
    assert setup_link.use(path.split("/")[-2], "eve", PASSWORD) is None
    assert not User.objects.filter(username="eve").exists()


def test_it_works_for_a_day(browser: Client) -> None:
    path = f"/{setup_link.make()}"
    SetupLink.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert browser.post(path, FORM).status_code == 404
    assert not User.objects.exists()
    path = f"/{setup_link.make()}"
    left = SetupLink.objects.get().expires_at - timezone.now()
    assert timedelta(hours=23, minutes=59) < left <= timedelta(hours=24)


def test_a_newer_one_takes_its_place(browser: Client) -> None:
    old, new = f"/{setup_link.make()}", f"/{setup_link.make()}"
    assert browser.get(old).status_code == 404
    assert browser.get(new).status_code == 200


def test_it_works_only_while_there_is_no_administrator(browser: Client) -> None:
    path = f"/{setup_link.make()}"
    person("boss", roles.SUPERUSER)
    assert browser.get(path).status_code == 404
    assert browser.post(path, FORM).status_code == 404
    with pytest.raises(CommandError, match="there is an administrator already"):
        call_command("token", "setup-link")


def test_a_wrong_token_is_no_error(browser: Client) -> None:
    for token in (
        "x",
        "%00",
        "a" * 5000,
        "..%2f",
    ):
        setup_link.make()
        assert browser.get(f"/setup/{token}/").status_code == 404


def test_only_a_digest_of_the_setup_link_is_kept(service: Frontier) -> None:
    token = setup_link.make().split("/")[1]
    assert len(token) >= 43
    assert token not in str(SetupLink.objects.values().get())


def test_of_two_at_the_same_time_one_wins(service: Frontier) -> None:
    token = setup_link.make().split("/")[1]
    together, made = Barrier(2), []

    def use(name: str) -> None:
        together.wait(30)
        made.append(setup_link.use(token, name, PASSWORD))
        connections.close_all()

    threads = [Thread(target=use, args=(name,)) for name in ("ada", "eve")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(made) == 2
    assert sum(user is not None for user in made) == 1
    assert User.objects.count() == 1


def test_the_command_prints_it(service: Frontier, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("token", "setup-link", "--url", "https://crawl.example.com/")
    printed = capsys.readouterr().out.strip()
    assert re.fullmatch(r"https://crawl\.example\.com/setup/[\w-]{43}/", printed)
    assert setup_link.works(printed.split("/")[-2])


@pytest.mark.parametrize(
    ("bind", "place"),
    [("", "127.0.0.1:8000"), ("10.0.0.1:80", "10.0.0.1:80"), ("0.0.0.0:90", "127.0.0.1:90")],
)
def test_it_leads_to_where_the_web_listens(
    service: Frontier,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    bind: str,
    place: str,
) -> None:
    monkeypatch.setenv("CRAWLFRAME_BIND", bind)
    call_command("token", "setup-link")
    assert capsys.readouterr().out.startswith(f"http://{place}/setup/")


# Logins


def test_who_guesses_passwords_must_wait(browser: Client) -> None:
    person("ada", roles.SUPERUSER)
    person("bob", "viewer")
    form = {"username": "ada", "password": "wrong"}
    answers = [browser.post("/admin/login/", form).status_code for _ in range(7)]
    assert answers == [200] * 4 + [429] * 3
    right = browser.post("/admin/login/", {**form, "password": PASSWORD})
    assert right.status_code == 429
    page = right.content.decode()
    assert "Too many wrong passwords" in page
    assert "for 15 minutes" in page
    assert right["Retry-After"] == "900"
    # Neither another user there nor this one elsewhere has to wait.
    assert browser.post("/admin/login/", {"username": "bob", "password": PASSWORD})["Location"]
    elsewhere = Client(SERVER_NAME="localhost", REMOTE_ADDR="192.0.2.8")
    assert elsewhere.post("/admin/login/", {**form, "password": PASSWORD}).status_code == 302
    verbs = [row.verb for row in Action.objects.exclude(verb="login").order_by("id")]
    assert verbs == ["login_failed"] * 4 + ["locked_out"]


def guess(count: int, address: str = "192.0.2.7", first: int = 0, **headers: Any) -> list[int]:
    """Wrong passwords, each for a different name and from a different browser; returns the
    statuses."""
    client = Client(SERVER_NAME="localhost", REMOTE_ADDR=address, headers=headers)
    return [
        client.post(
            "/admin/login/",
            {"username": f"user{n}", "password": "wrong"},
            headers={"User-Agent": str(n)},
        ).status_code
        for n in range(first, first + count)
    ]


def enter(name: str, address: str) -> int:
    """The status of a login with the right password."""
    client = Client(SERVER_NAME="localhost", REMOTE_ADDR=address)
    return client.post("/admin/login/", {"username": name, "password": PASSWORD}).status_code


def test_who_guesses_over_many_names_must_wait_too(service: Frontier) -> None:
    person("ada", "viewer")
    assert guess(29) == [200] * 29
    assert enter("ada", "192.0.2.7") == 302  # which does not clear the failures of others
    assert guess(3, first=29) == [429] * 3
    assert enter("ada", "192.0.2.7") == 429
    assert enter("ada", "192.0.2.8") == 302
    refused = Client(SERVER_NAME="localhost", REMOTE_ADDR="192.0.2.7").post(
        "/admin/login/", {"username": "ada", "password": PASSWORD}
    )
    assert "logins from it are refused for up to 15 minutes" in " ".join(
        refused.content.decode().split()
    )
    locked = Action.objects.get(verb="locked_out")
    assert (locked.address, locked.detail) == (
        "192.0.2.7",
        {"username": "user29", "everybody": True},
    )


def test_an_address_is_unlocked_when_its_failures_are_old(
    service: Frontier, settings_with: Callable[..., None]
) -> None:
    settings_with(LOGIN_ADDRESS_LIMIT=6)
    person("ada", "viewer")
    guess(7)
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=14))
    assert enter("ada", "192.0.2.7") == 429
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=16))
    assert enter("ada", "192.0.2.7") == 302


def test_a_guesser_behind_our_proxy_locks_nobody_else_behind_it(
    service: Frontier, settings_with: Callable[..., None]
) -> None:
    person("ada", "viewer")
    settings_with(PROXIES=1, LOGIN_ADDRESS_LIMIT=6)
    # The first is the client's lie.
    told: dict[str, Any] = {"X-Forwarded-For": "198.51.100.1, 203.0.113.5"}
    assert guess(7, "127.0.0.1", **told)[-1] == 429
    form = {"username": "ada", "password": PASSWORD}
    for address, status in (("203.0.113.5", 429), ("203.0.113.6", 302), ("198.51.100.1", 302)):
        client = Client(SERVER_NAME="localhost", REMOTE_ADDR="127.0.0.1")
        answer = client.post("/admin/login/", form, headers={"X-Forwarded-For": address})
        assert answer.status_code == status, address


@pytest.mark.parametrize(
    ("same", "other"),
    [
        (["2001:db8:1:2::5", "2001:db8:1:2:ffff::1"], "2001:db8:1:3::5"),
        (["192.0.2.7", "::ffff:192.0.2.7"], "192.0.2.9"),
    ],
)
def test_a_network_of_one_customer_counts_as_one_address(
    service: Frontier, settings_with: Callable[..., None], same: list[str], other: str
) -> None:
    settings_with(LOGIN_ADDRESS_LIMIT=6)
    person("ada", "viewer")
    for n, address in enumerate(same):
        guess(3, address, first=3 * n)
    assert enter("ada", same[0]) == 429
    assert enter("ada", other) == 302
    rows = Action.objects.filter(verb="login_failed")
    assert rows.earliest("pk").address == same[0]  # the journal has the address itself


def test_whose_address_is_not_known_locks_only_the_name(
    service: Frontier, settings_with: Callable[..., None]
) -> None:
    settings_with(LOGIN_ADDRESS_LIMIT=6)
    person("ada", "viewer")
    guess(7, "")  # a web on a unix socket, say
    assert enter("ada", "") == 302


def test_sessions_are_not_kept_for_ever(browser: Client) -> None:
    person("ada", "viewer")
    long_ago = timezone.now() - timedelta(days=1)
    Session.objects.create(session_key="x" * 32, session_data="", expire_date=long_ago)
    browser.post("/admin/login/", {"username": "ada", "password": PASSWORD})
    assert not Session.objects.filter(session_key="x" * 32).exists()
    cookie = browser.cookies["sessionid"]
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"


def test_a_new_password_ends_other_sessions(service: Frontier) -> None:
    user = person("ada", "viewer")
    here, there = login(user), login(user)
    new = "battery staple 7"
    form = {"old_password": PASSWORD, "new_password1": new, "new_password2": new}
    assert here.post("/admin/password_change/", form).status_code == 302
    assert here.get("/admin/").status_code == 200
    assert there.get("/admin/").status_code == 302
    assert Action.objects.latest("id").verb == "change_password"


# Users and roles


def change(client: Client, user: User, **fields: str) -> int:
    """Saves the form of a user, with these fields changed; returns the status."""
    form = {"username": user.username, "role": roles.role_of(user), "is_active": "on"}
    form |= {"first_name": user.first_name, "last_name": "", "email": ""}
    return client.post(f"{USERS}{user.pk}/change/", {**form, **fields}).status_code


def test_a_user_gets_one_role(service: Frontier) -> None:
    boss = login(person("boss", roles.SUPERUSER))
    made = boss.post(f"{USERS}add/", {**FORM, "role": "operator"})
    user = User.objects.get(username="ada")
    assert made["Location"] == f"{USERS}{user.pk}/change/"
    assert [group.name for group in user.groups.all()] == ["operator"]
    assert (user.is_staff, user.is_superuser) == (True, False)
    assert user.has_perm("crawlservice.steer_task")
    assert not user.has_perm("auth.change_user")
    user.groups.add(Group.objects.create(name="night shift"))
    assert change(boss, user, role="viewer") == 302
    assert {group.name for group in user.groups.all()} == {"viewer", "night shift"}
    rows = Action.objects.filter(verb__endswith="_user").order_by("id")
    assert [(row.verb, row.name, row.detail["name"], row.detail["role"]) for row in rows] == [
        ("add_user", "boss", "ada", "operator"),
        ("change_user", "boss", "ada", "viewer"),
    ]
    assert rows[1].detail["fields"] == ["Role"]


def test_without_a_role_nobody_gets_in(service: Frontier, browser: Client) -> None:
    user = person("ada")
    assert not user.is_staff
    form = {"username": "ada", "password": PASSWORD}
    assert browser.post("/admin/login/", form).status_code == 200
    assert browser.get("/admin/").status_code == 302


def test_an_administrator_makes_no_superuser(as_role: Callable[[str], Client]) -> None:
    client = as_role("administrator")
    answer = client.post(f"{USERS}add/", {**FORM, "role": roles.SUPERUSER})
    assert answer.status_code == 200
    assert "not one of the available choices" in answer.content.decode()
    assert not User.objects.filter(username="ada").exists()
    user = person("bob", "viewer")
    assert change(client, user, role=roles.SUPERUSER) == 200
    assert change(client, user, is_superuser="on", is_staff="on", groups="1") == 302
    user.refresh_from_db()
    assert (user.is_superuser, roles.role_of(user)) == (False, "viewer")


def test_nobody_changes_their_own_rights(as_role: Callable[[str], Client]) -> None:
    client = as_role("administrator")
    me = User.objects.get(username="administrator")
    assert change(client, me, role="viewer", first_name="Max", is_active="") == 302
    me.refresh_from_db()
    assert (me.first_name, me.is_active, roles.role_of(me)) == ("Max", True, "administrator")
    assert client.post(f"{USERS}{me.pk}/delete/", {"post": "yes"}).status_code == 403


def test_an_administrator_does_not_become_a_superuser_by_a_password(
    as_role: Callable[[str], Client],
) -> None:
    client = as_role("administrator")
    boss = person("boss", roles.SUPERUSER)
    form = {"password1": "battery staple 7", "password2": "battery staple 7"}
    assert client.post(f"{USERS}{boss.pk}/password/", form).status_code == 403
    assert change(client, boss, username="fool") == 403
    assert client.post(f"{USERS}{boss.pk}/delete/", {"post": "yes"}).status_code == 403
    selected = {"action": "delete_selected", "_selected_action": [str(boss.pk)], "post": "yes"}
    client.post(USERS, selected)
    boss.refresh_from_db()
    assert boss.check_password(PASSWORD)
    other = person("bob", "operator")
    assert client.post(f"{USERS}{other.pk}/password/", form).status_code == 302
    other.refresh_from_db()
    assert other.check_password("battery staple 7")


def test_who_may_change_users_only_gives_and_touches_what_they_have(service: Frontier) -> None:
    """A custom group: its members may change users, and otherwise only view."""
    clerk = person("clerk", "viewer")
    clerk.user_permissions.add(
        *Permission.objects.filter(codename__in=("change_user", "view_user"))
    )
    client = login(clerk)
    viewer, operator = person("v", "viewer"), person("o", "operator")
    User.objects.filter(pk=operator.pk).update(is_active=False)
    assert change(client, viewer, role="operator") == 200
    assert change(client, viewer, role="") == 302
    assert change(client, operator, role="viewer") == 403
    names = {user.username: roles.role_of(user) for user in User.objects.all()}
    assert names == {"clerk": "viewer", "v": "", "o": "operator"}


def test_the_first_migration_makes_whole_roles(service: Frontier) -> None:
    for role, permissions in roles.ROLES.items():
        group = Group.objects.get(name=role)
        assert {one.codename for one in group.permissions.all()} == set(permissions)


def test_tokens_go_with_their_user(as_role: Callable[[str], Client]) -> None:
    user = person("bob", "submitter")
    Token.objects.create(user=user, name="x", start="x", digest="x")
    had = dict(admin.site._registry)
    if Token not in had:
        admin.site.register(Token, ReadOnly)  # a list without deletion
    try:
        as_role("administrator").post(f"{USERS}{user.pk}/delete/", {"post": "yes"})
    finally:
        admin.site._registry = had
    assert not User.objects.filter(username="bob").exists()
    assert not Token.objects.exists()
    assert Action.objects.latest("id").detail == {"name": "bob", "id": user.pk, "role": "submitter"}


def test_roles_are_not_edited(service: Frontier) -> None:
    boss = login(person("boss", roles.SUPERUSER))
    group = Group.objects.get(name="viewer")
    place = f"/admin/auth/group/{group.pk}"
    assert boss.get(f"{place}/change/").status_code == 200
    assert boss.post(f"{place}/change/", {"name": "x"}).status_code == 403
    assert boss.post(f"{place}/delete/", {"post": "yes"}).status_code == 403
    assert boss.post("/admin/auth/group/add/", {"name": "night shift"}).status_code == 302


def test_the_list_of_users_costs_the_same_however_long(service: Frontier) -> None:
    boss = login(person("boss", roles.SUPERUSER))
    person("a", "viewer")
    counted(boss, USERS)[1]
    before = counted(boss, USERS)[1]
    for name in "bcdef":
        person(name, "viewer")
    assert counted(boss, USERS)[1] == before


# Everything together


@pytest.mark.process
def test_the_checks_for_a_deployment_find_only_an_undeclared_proxy(
    tmp_path: Path, settings_with: Callable[..., None]
) -> None:
    env = {
        "PATH": os.environ["PATH"],
        "CRAWLFRAME_VAR_DIR": str(tmp_path),
        "CRAWLFRAME_HTTPS": "1",
        "CRAWLFRAME_ALLOWED_HOSTS": "crawl.example.com",
    }
    command = [sys.executable, str(CHECKOUT / "manage.py"), "check", "--deploy"]
    outcome = subprocess.run(
        [*command, "--fail-level", "INFO"], env=env, capture_output=True, text=True
    )
    assert "1 issue" in outcome.stderr
    assert "one client that guesses passwords locks out everybody" in outcome.stderr
    settings_with(HTTPS=True, PROXIES=0)
    assert check_proxies(None) != []
    settings_with(PROXIES=1)
    assert check_proxies(None) == []
