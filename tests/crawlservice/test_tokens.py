"""Tokens: stored as a digest only, with no more rights than their users, invalid when they should
be."""

from __future__ import annotations

import re
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from crawlframe.frontier import Frontier
from crawlservice.accounts import tokens
from crawlservice.models import Action, Token
from tests.crawlservice.programs import Program, person, program

COMMANDS = Path(__file__).resolve().parents[2] / "docs/reference/commands.md"
SECRET = re.compile(r"cf_[\w-]{43}")


@pytest.fixture
def user(service: Frontier) -> User:
    return person("operator")


def test_only_the_digest_is_kept(user: User) -> None:
    token, secret = tokens.make(user, "nightly", "submit", 30)
    assert SECRET.fullmatch(secret)
    row = Token.objects.values().get(pk=token.pk)
    assert not any(secret in str(value) for value in row.values())
    assert row["start"] == secret[:9]
    assert tokens.find(secret) == token
    assert tokens.find(secret[:-1]) is None
    assert tokens.find(token.digest) is None
    assert tokens.make(user, "nightly", "submit")[1] != secret


def test_each_scope_allows_those_before_it(user: User) -> None:
    for place, scope in enumerate(tokens.SCOPES, 1):
        token, _ = tokens.make(user, "x", scope)
        allowed = [one for one in tokens.SCOPES if tokens.allows(token, one)]
        assert allowed == ["read", "submit", "operate"][:place]
    assert not tokens.allows(Token(user=user, scopes=["root"]), "read"), "nobody knows it"


def test_what_is_revoked_expired_or_of_an_inactive_user_is_dead(user: User) -> None:
    def state(token: Token, secret: str) -> tuple[str, bool]:
        found = Token.objects.select_related("user").get(pk=token.pk)
        return tokens.state(found), tokens.find(secret) is not None

    mine, expired, revoked = (tokens.make(user, "x", "read", 1) for _ in range(3))
    Token.objects.filter(pk=expired[0].pk).update(expires_at=timezone.now())
    assert tokens.revoke(Token.objects.filter(pk=revoked[0].pk)) == 1
    assert tokens.revoke(Token.objects.filter(pk=revoked[0].pk)) == 0
    assert state(*mine) == ("valid", True)
    assert state(*expired) == ("expired", False)
    assert state(*revoked) == ("revoked", False)
    User.objects.update(is_active=False)
    assert state(*mine) == ("inactive", False)


def test_use_is_noted_once_a_minute(user: User) -> None:
    caller = program(user)

    def used() -> object:
        return Token.objects.get().used_at

    assert used() is None
    assert caller.get("tasks").status_code == 200
    first = used()
    assert first is not None
    assert caller.get("tasks").status_code == 200
    assert used() == first
    Token.objects.update(used_at=timezone.now() - timedelta(seconds=61))
    assert caller.get("tasks").status_code == 200
    assert timezone.now() - Token.objects.get().used_at < timedelta(seconds=30)  # type: ignore[operator]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_the_documented_command_works_as_it_is_written(user: User, manage) -> None:
    (written,) = re.findall(r"^\| `(token add USER[^`]*)` \|", COMMANDS.read_text(), re.MULTILINE)
    made = manage(*written.replace("USER", user.username).split())
    assert made.returncode == 0, made.stderr
    assert SECRET.fullmatch(made.stdout.strip())
    assert Token.objects.get().name == "command line"


def run(*arguments: object) -> str:
    """The standard output of the command ``token``."""
    out = StringIO()
    call_command("token", *map(str, arguments), stdout=out, stderr=StringIO())
    return out.getvalue()


def test_the_commands_make_list_and_revoke(user: User) -> None:
    secret = run("add", "operator", "--name", "nightly", "--scope", "submit").strip()
    assert SECRET.fullmatch(secret)
    assert Program(secret).get("tasks").status_code == 200
    token = Token.objects.get()
    assert token.expires_at is not None
    assert 89 <= (token.expires_at - timezone.now()).days <= 90

    listed = run("list")
    assert "nightly" in listed
    assert secret[:9] in listed
    assert "valid" in listed
    assert secret not in listed

    run("revoke", token.pk)
    assert Program(secret).get("tasks").status_code == 401
    assert "revoked" in run("list")
    assert [*Action.objects.order_by("pk").values_list("verb", flat=True)] == [
        "add token",
        "revoke token",
    ]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_what_the_commands_refuse(user: User) -> None:
    for arguments, words in (
        (("add", "ghost", "--name", "x"), "no user 'ghost'"),
        (("add", "operator", "--name", "x", "--expires-days", "-1"), "between 0 and"),
        (("add", "operator", "--name", "x", "--scope", "root"), "invalid choice"),
        (("revoke", "7"), "no token 7"),
    ):
        with pytest.raises(CommandError, match=words):
            run(*arguments)
        assert not Token.objects.exists()


def browser(user: User) -> Client:
    User.objects.filter(pk=user.pk).update(is_staff=True)
    client = Client(SERVER_NAME="localhost")
    client.force_login(User.objects.get(pk=user.pk))
    return client


LIST = "/admin/crawlservice/token/"


def test_the_admin_shows_a_new_token_once(user: User) -> None:
    client = browser(user)
    assert client.get(f"{LIST}add/").status_code == 200
    made = client.post(f"{LIST}add/", {"name": "nightly", "scope": "submit", "days": "7"})
    assert made.status_code == 200
    assert "no-store" in made["Cache-Control"]
    found = SECRET.search(made.content.decode())
    assert found
    token = Token.objects.get()
    assert (token.user, token.scopes, token.name) == (user, ["submit"], "nightly")
    assert Program(found[0]).get("tasks").status_code == 200
    for page in (LIST, f"{LIST}{token.pk}/change/"):
        shown = client.get(page).content.decode()
        assert "nightly" in shown
        assert found[0] not in shown
        assert token.digest not in shown
    assert Action.objects.filter(verb="add token", user=user, token=token).count() == 1


def test_a_wrong_form_makes_no_token(user: User) -> None:
    client = browser(user)
    for wrong in ({"scope": "root"}, {"days": "0"}, {"days": "9999"}, {"name": ""}):
        form = {"name": "x", "scope": "read", "days": "7", **wrong}
        assert client.post(f"{LIST}add/", form).status_code == 200
        assert not Token.objects.exists()


def test_a_token_cannot_be_changed_but_revoked(user: User) -> None:
    client = browser(user)
    token, secret = tokens.make(user, "mine", "read", 7)
    page = f"{LIST}{token.pk}/change/"
    client.post(page, {"name": "other", "scopes": '["operate"]', "expires_at": ""})
    assert Token.objects.values().get() == Token.objects.filter(pk=token.pk).values().get()
    row = Token.objects.get()
    assert (row.name, row.scopes, row.expires_at) == ("mine", ["read"], token.expires_at)
    assert client.post(f"{LIST}{token.pk}/delete/", {"post": "yes"}).status_code == 403
    client.post(LIST, {"action": "revoke", "_selected_action": [token.pk]})
    assert tokens.find(secret) is None


def test_users_see_and_revoke_their_own_tokens_only(user: User) -> None:
    theirs, secret = tokens.make(person("submitter"), "not-yours", "read")
    client = browser(user)
    assert "not-yours" not in client.get(LIST).content.decode()
    assert client.get(f"{LIST}{theirs.pk}/change/").status_code == 302
    client.post(LIST, {"action": "revoke", "_selected_action": [theirs.pk]})
    assert tokens.find(secret) is not None
    boss = browser(person("administrator"))
    assert "not-yours" in boss.get(LIST).content.decode()
    boss.post(LIST, {"action": "revoke", "_selected_action": [theirs.pk]})
    assert tokens.find(secret) is None


def test_viewers_make_no_tokens(service: Frontier) -> None:
    client = browser(person("viewer"))
    assert client.get(LIST).status_code == 403
    assert client.post(f"{LIST}add/", {"name": "x", "scope": "read"}).status_code == 403
