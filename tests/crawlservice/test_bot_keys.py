"""Web Bot Auth in the service: the life of keys, the directory, and that rotation leaves no gap."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.management import CommandError, call_command
from django.test import Client

from crawlframe.errors import ConfigError
from crawlframe.frontier import Frontier
from crawlframe.identity.identity import Identity
from crawlframe.identity.signing import DIRECTORY
from crawlservice.connections import clock
from crawlservice.identity import bot_keys
from crawlservice.identity.bot_keys import CACHE_AGE, LEAD, TAIL, KeyProblem
from crawlservice.identity.papers import StoredPapers
from crawlservice.models import Action, BotKey
from crawlservice.security.sealing import unseal
from tests.identity.verifier import Answered, Message, verifier

pytestmark = pytest.mark.databases("sqlite", "postgres")

START = datetime(2026, 11, 1, tzinfo=UTC)
ORIGIN = "https://bot.example"
MEDIA_TYPE = "application/http-message-signatures-directory+json"


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch, service: Frontier) -> Callable[[timedelta], None]:
    """Moves the clock to so long after START."""

    def move(later: timedelta) -> None:
        monkeypatch.setattr(clock, "now", lambda: START + later)

    move(timedelta())
    return move


@pytest.fixture
def signing(settings_with: Callable[..., None]) -> None:
    """CRAWLFRAME_BOT_AUTH is set."""
    settings = django_settings.CRAWLFRAME
    settings_with(
        CRAWLFRAME=replace(settings, bot_auth=ORIGIN), ALLOWED_HOSTS=["bot.example", "localhost"]
    )


@pytest.fixture
def visitor() -> Client:
    return Client(SERVER_NAME="bot.example")


def names(*rows: BotKey) -> list[str]:
    return [row.name for row in rows]


def test_there_is_one_first_key(at: Any) -> None:
    first = bot_keys.create()
    assert bot_keys.current() == first
    assert bot_keys.published() == [first]
    with pytest.raises(KeyProblem, match="credential rotate-key"):
        bot_keys.create()
    private = unseal(first.sealed_private)
    assert private not in first.sealed_private
    assert bot_keys.signing_key(first).name == first.name


def test_the_next_key_is_published_before_it_signs_and_the_old_one_after(
    at: Callable[[timedelta], None],
) -> None:
    first = bot_keys.create()
    at(timedelta(days=90))
    second = bot_keys.rotate()
    assert bot_keys.published() == [first, second]
    assert bot_keys.current() == first
    at(timedelta(days=90) + LEAD)
    assert bot_keys.current() == second
    assert bot_keys.published() == [first, second]
    at(timedelta(days=90) + LEAD + TAIL)
    assert bot_keys.published() == [second]
    assert min(LEAD, TAIL) > CACHE_AGE


def test_what_cannot_be_changed_says_what_to_do(at: Callable[[timedelta], None]) -> None:
    with pytest.raises(KeyProblem, match="credential create-key"):
        bot_keys.rotate()
    first = bot_keys.create()
    with pytest.raises(KeyProblem, match=r"there is no other key; first run: .*rotate-key --now"):
        bot_keys.retire(first.name)
    second = bot_keys.rotate()
    with pytest.raises(KeyProblem, match="rotate-key --now"):
        bot_keys.rotate()
    for wrong in ("", "!", "nothing"):
        with pytest.raises(KeyProblem, match="no published key starts with"):
            bot_keys.retire(wrong)
    assert bot_keys.rotate(timedelta()) == second
    assert bot_keys.current() == second
    bot_keys.retire(first.name[:8])
    assert bot_keys.published() == [second]


def test_a_key_that_was_given_up_never_signs_again(at: Callable[[timedelta], None]) -> None:
    first = bot_keys.create()
    at(timedelta(days=1))
    second = bot_keys.rotate(timedelta())
    at(timedelta(days=9))
    third = bot_keys.rotate(timedelta())
    bot_keys.retire(third.name)
    assert bot_keys.current() == second
    assert BotKey.objects.get(pk=first.pk).retired_at is not None


@pytest.mark.usefixtures("signing")
def test_workers_follow_a_rotation_without_a_gap(at: Callable[[timedelta], None]) -> None:
    """The signing key is always in every directory that a verifier may have, old or new."""
    bot_keys.create()
    stored, kept, used = StoredPapers(), {}, set()
    for hour in range(120):
        now = timedelta(hours=hour)
        at(now)
        if hour == 10:
            bot_keys.rotate()
        identity = Identity(ORIGIN, (START + now).timestamp)
        identity.load(stored.read())
        signed = dict(identity.headers_for("https://shop.org/", "GET", []))
        kept[hour] = names(*bot_keys.published())
        name = signed["Signature-Input"].partition('keyid="')[2].partition('"')[0]
        used.add(name)
        for directory in (kept[hour], kept.get(hour - 1, [name])):
            assert name in directory
        assert len(kept[hour]) <= 2
    assert used == set(kept[30]) != set(kept[119])


def test_the_directory_is_served_signed_and_cacheable(
    at: Any, signing: None, visitor: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "now", lambda: datetime.now(UTC))
    assert visitor.get(DIRECTORY).status_code == 404
    first, second = bot_keys.create(), bot_keys.rotate()
    answer = visitor.get(DIRECTORY)
    assert answer.status_code == 200
    assert answer["Content-Type"] == MEDIA_TYPE
    assert answer["Cache-Control"] == "public, max-age=3600"
    assert answer["Access-Control-Allow-Origin"] == "*"
    assert not answer.cookies
    known = json.loads(answer.content)["keys"]
    assert [key["kid"] for key in known] == [first.name, second.name]
    assert all((key["kty"], key["crv"], key["use"]) == ("OKP", "Ed25519", "sig") for key in known)
    assert "d" not in known[0]
    found = verifier({key["kid"]: key["x"] for key in known}).verify(
        Answered(Message(f"{ORIGIN}{DIRECTORY}", {}), dict(answer.items())),
        expect_tag="http-message-signatures-directory",
        body=answer.content,
    )
    assert [one.parameters["keyid"] for one in found] == [first.name, second.name]
    again = visitor.get(DIRECTORY, headers={"If-None-Match": answer["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert visitor.head(DIRECTORY).status_code == 200
    assert visitor.post(DIRECTORY).status_code == 405
    for secret in (unseal(first.sealed_private), first.sealed_private):
        assert secret not in answer.content.decode()


def test_nodes_do_not_start_without_a_key(at: Any, signing: None) -> None:
    for refuse in (bot_keys.check, StoredPapers().read):
        with pytest.raises(ConfigError, match=r"CRAWLFRAME_BOT_AUTH is set.*credential create-key"):
            refuse()
    bot_keys.create()
    bot_keys.check()
    assert len(StoredPapers().read().keys) == 1


def test_nothing_is_checked_or_read_while_it_is_off(at: Any) -> None:
    bot_keys.check()
    bot_keys.create()
    assert StoredPapers().read() == ((), ())


def test_the_command(at: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> str:
        call_command("credential", *words)
        return capsys.readouterr().out

    assert "signs from now on" in run("create-key")
    assert "signs from 2026-11-02 00:00 UTC on" in run("rotate-key")
    rows = [*BotKey.objects.all()]
    listed = run("keys")
    assert [line.split()[:2] for line in listed.splitlines()[1:3]] == [
        [rows[0].name, "signs"], [rows[1].name, "next"],
    ]  # fmt: skip
    assert "signs from now on" in run("rotate-key", "--now")
    assert "retired" in run("retire-key", rows[0].name[:10])
    assert "retired" in run("keys").splitlines()[1]
    with pytest.raises(CommandError, match="--hours must be between 1 and"):
        run("rotate-key", "--hours", "0")
    private = unseal(rows[0].sealed_private)
    told = repr([*Action.objects.values_list("verb", "detail")])
    assert private not in told
    assert [verb for (verb,) in Action.objects.order_by("pk").values_list("verb")] == [
        "create key", "rotate key", "rotate key", "retire key"
    ]  # fmt: skip
