"""Sealing: secrets at rest, another key, and older rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db.models.functions import Now

from crawlframe.frontier import Frontier
from crawlframe.node.master.master import Master
from crawlservice.connections.installation import check_key
from crawlservice.models import Action, Delivery, Event, Generation, Installation, Task, Webhook
from crawlservice.outbox.outbox import RETRIES
from crawlservice.security.sealing import SealError, reseal, seal, unseal
from crawlservice.webhooks.address import parsed, restored
from crawlservice.webhooks.deliveries import OUTBOX, create_deliveries

both = pytest.mark.databases("sqlite", "postgres")


def test_what_is_sealed_is_read_with_the_same_key_only(settings_with: Callable[..., None]) -> None:
    settings_with(SECRET_KEY="a" * 50)
    sealed = seal("whsec_1")
    assert "whsec" not in sealed
    assert seal("whsec_1") != sealed
    assert unseal(sealed) == "whsec_1"
    assert (seal(""), unseal("")) == ("", "")
    settings_with(SECRET_KEY="b" * 50)
    for wrong in (sealed, "plain", sealed[:-4]):
        with pytest.raises(SealError, match="CRAWLFRAME_SECRET_KEY_FALLBACKS"):
            unseal(wrong)


def test_a_former_key_reads_what_it_has_sealed(settings_with: Callable[..., None]) -> None:
    settings_with(SECRET_KEY="a" * 50)
    sealed = seal("whsec_1")
    settings_with(SECRET_KEY="b" * 50, SECRET_KEY_FALLBACKS=["a" * 50])
    anew = reseal(sealed)
    settings_with(SECRET_KEY="b" * 50, SECRET_KEY_FALLBACKS=[])
    assert unseal(anew) == "whsec_1"


@pytest.mark.parametrize(
    ("url", "shown", "secret", "sent"),
    [
        ("https://example.com/a@b", "https://example.com/a@b", "", "https://example.com/a@b"),
        (
            "https://ann:x@example.com:81/?q=1&r",
            "https://***@example.com:81/?***",
            "ann:x?q=1&r",
            "https://example.com:81/?q=1&r",
        ),
        ("https://ann@example.com/", "https://***@example.com/", "ann", "https://example.com/"),
        ("https://a@b:c@example.com/", "https://***@example.com/", "a@b:c", "https://example.com/"),
        (
            "https://h.example/in?t?u",
            "https://h.example/in?***",
            "?t?u",
            "https://h.example/in?t?u",
        ),
    ],
)
def test_login_and_query_of_an_address(url: str, shown: str, secret: str, sent: str) -> None:
    address = parsed(url)
    assert (address.shown, address.secret, address.destination) == (shown, secret, sent)
    assert restored(shown, secret) == address


def test_a_node_with_another_key_says_so_and_goes_on(
    ended_task: Task, settings_with: Callable[..., None]
) -> None:
    for name, key in (("other", "a" * 50), ("ours", "b" * 50)):
        settings_with(SECRET_KEY=key, SECRET_KEY_FALLBACKS=[])
        Webhook.objects.create(name=name, url="http://x.example/", sealed_secret=seal(name))
    create_deliveries()
    assert [letter.secret for _, letter in OUTBOX.claim([], 5)] == ["ours"]
    delivery = Delivery.objects.get(webhook__name="other")
    assert "CRAWLFRAME_SECRET_KEY" in delivery.problem
    assert delivery.next_at is not None
    assert Event.objects.count() == 1


def test_what_cannot_be_opened_is_given_up_in_the_end(
    ended_task: Task, settings_with: Callable[..., None]
) -> None:
    settings_with(SECRET_KEY="a" * 50)
    Webhook.objects.create(name="other", url="http://x.example/", sealed_secret=seal("s"))
    settings_with(SECRET_KEY="b" * 50, SECRET_KEY_FALLBACKS=[])
    create_deliveries()
    for attempt in range(1, len(RETRIES.pauses) + 2):
        delivery = Delivery.objects.get()
        assert (delivery.attempts, delivery.next_at is None) == (attempt - 1, False)
        Delivery.objects.update(next_at=Now())
        assert [*OUTBOX.claim([], 5)] == []
    delivery = Delivery.objects.get()
    assert (delivery.next_at, delivery.delivered_at) == (None, None)
    assert "CRAWLFRAME_SECRET_KEY" in delivery.problem
    assert not create_deliveries()


@pytest.mark.parametrize("checked", [True, False])
def test_a_node_that_starts_with_another_key_is_warned_of(
    ended_task: Task, settings_with: Callable[..., None], checked: bool
) -> None:
    """By the check value of the first node, or by a webhook that was there before it."""
    settings_with(SECRET_KEY="a" * 50, SECRET_KEY_FALLBACKS=[])
    if checked:
        assert (check_key(), check_key()) == ("", "")
        assert "a" * 50 not in Installation.objects.get().key_check
    else:
        Webhook.objects.create(name="w", url="http://x.example/", sealed_secret=seal("s"))
    settings_with(SECRET_KEY="b" * 50)
    assert "give the web and all nodes the same one" in check_key()
    settings_with(SECRET_KEY_FALLBACKS=["a" * 50])
    assert check_key() == ""
    call_command("store", "reseal")
    settings_with(SECRET_KEY_FALLBACKS=[])
    assert check_key() == ""
    settings_with(SECRET_KEY="a" * 50)
    assert check_key() != ""


@pytest.mark.usefixtures("no_browser")
@pytest.mark.parametrize("once", [True, False])
def test_runcrawler_warns_of_another_key(
    ended_task: Task,
    settings_with: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
    once: bool,
) -> None:
    settings_with(SECRET_KEY="a" * 50, SECRET_KEY_FALLBACKS=[])
    check_key()
    settings_with(SECRET_KEY="b" * 50)
    lives: list[int] = []

    def run(master: Master) -> int:
        lives.append(master._services.begin_generation("alpha", "m", 1))
        return 0

    monkeypatch.setattr("crawlframe.base.logs.configure", lambda *_: None)
    monkeypatch.setattr(Master, "run", run)
    call_command("runcrawler", once=once)
    assert "warning: CRAWLFRAME_SECRET_KEY here is not the one this" in capsys.readouterr().err
    assert Generation.objects.get(pk=lives[0]).once == once


@both
def test_reseal_lets_the_former_key_go(
    ended_task: Task, settings_with: Callable[..., None], capsys: Any
) -> None:
    settings_with(SECRET_KEY="a" * 50)
    Webhook.objects.create(
        name="w", url="http://***@x.example/", sealed_secret=seal("s"), sealed_login=seal("u:p")
    )
    settings_with(SECRET_KEY="b" * 50, SECRET_KEY_FALLBACKS=["a" * 50])
    call_command("store", "reseal")
    assert capsys.readouterr().out.startswith("secrets that were encrypted again: webhooks 1\n")
    settings_with(SECRET_KEY_FALLBACKS=[])
    row = Webhook.objects.get()
    assert (unseal(row.sealed_secret), unseal(row.sealed_login)) == ("s", "u:p")


def test_reseal_names_what_it_cannot_open_and_goes_on(
    service: Frontier, settings_with: Callable[..., None], capsys: Any
) -> None:
    for name, key in (("lost", "a" * 50), ("ours", "b" * 50)):
        settings_with(SECRET_KEY=key, SECRET_KEY_FALLBACKS=[])
        Webhook.objects.create(name=name, url="http://x.example/", sealed_secret=seal(name))
    settings_with(SECRET_KEY="c" * 50, SECRET_KEY_FALLBACKS=["b" * 50])
    lost = Webhook.objects.get(name="lost").sealed_secret
    with pytest.raises(CommandError, match=r": webhook lost; .*CRAWLFRAME_SECRET_KEY_FALLBACKS"):
        call_command("store", "reseal")
    assert ": webhooks 1\n" in capsys.readouterr().out
    settings_with(SECRET_KEY_FALLBACKS=[])
    assert unseal(Webhook.objects.get(name="ours").sealed_secret) == "ours"
    assert Webhook.objects.get(name="lost").sealed_secret == lost
    detail = Action.objects.get().detail
    assert detail == {"command": True, "webhooks": 1, "failed": ["webhook lost"]}
