"""Webhooks: each event reaches its receivers, signed, and again after a failure."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from crawlframe.conf import Settings
from crawlframe.fetch.journey.context import FetchLimits
from crawlframe.frontier import Frontier
from crawlservice.chores.threads import ChoreThread
from crawlservice.ledger.recovery import renew
from crawlservice.models import Delivery, Event, Task, Webhook
from crawlservice.outbox.outbox import JITTER, RETRIES
from crawlservice.security.sealing import seal, unseal
from crawlservice.steward.steward import Steward
from crawlservice.tasks.submit import submit
from crawlservice.webhooks import deliveries
from crawlservice.webhooks.deliveries import (
    OUTBOX,
    create_deliveries,
    new_secret,
    sample_message,
)
from crawlservice.webhooks.sender import LIMITS, WebhookSender, send_now
from tests.crawlservice.chores import at_once, until
from tests.crawlservice.receiver import Receiver, verify

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)
OPEN = Settings(webhook_private=LOOPBACK)
Hook = Callable[..., Webhook]


@pytest.fixture
def hook(ended_task: Task, receiver: Receiver) -> Hook:
    """Adds a webhook: ``hook("path", kinds=[...], ...)``. One task has ended."""

    def add(path: str = "", **fields: Any) -> Webhook:
        values = {
            "name": path or "all",
            "url": receiver.url + path,
            "sealed_secret": seal(new_secret()),
        }
        return Webhook.objects.create(**{**values, **fields})

    return add


@pytest.fixture
def post() -> Iterator[ChoreThread]:
    """Sends due deliveries until the end of the test."""
    made = ChoreThread("webhooks", lambda: WebhookSender(OPEN))
    yield made
    made.stop()
    threads = threading.enumerate
    until(lambda: "webhooks" not in {one.name for one in threads()}, "the sender does not stop")


def arrived(count: int) -> None:
    settled = Delivery.objects.exclude(delivered_at=None)
    until(lambda: settled.count() == count, "not all deliveries are settled")


# -- claims ---------------------------------------------------------------------------------------


def test_each_event_is_handed_out_once(hook: Hook) -> None:
    hook()
    assert create_deliveries()
    create_deliveries()
    delivery = Delivery.objects.get()
    assert delivery.event == Event.objects.get()
    assert (delivery.attempts, delivery.delivered_at, delivery.problem) == (0, None, "")
    assert Event.objects.get().delivered_at is not None


def test_an_event_goes_only_to_webhooks_that_want_it(hook: Hook) -> None:
    given: tuple[tuple[dict[str, Any], bool], ...] = (
        ({}, True),
        ({"kinds": ["finished", "cancelled"]}, True),
        ({"kinds": ["cancelled"]}, False),
        ({"spider": "shop"}, True),
        ({"spider": "shops"}, False),
        ({"spider": "shop", "kinds": ["failed"]}, False),
        ({"kinds": ["failed", "finished_with_errors"]}, True),  # so did the task end
        ({"enabled": False}, False),
    )
    hooks = [(hook(name=f"w{n}", **fields), wanted) for n, (fields, wanted) in enumerate(given)]
    create_deliveries()
    for one, wanted in hooks:
        assert Delivery.objects.filter(webhook=one).exists() == wanted, (one.kinds, one.spider)


def test_a_new_webhook_gets_no_earlier_events(hook: Hook, ended_task: Task) -> None:
    assert not create_deliveries()
    hook()
    assert not create_deliveries()
    Event.objects.create(task=ended_task, kind="finished")
    assert create_deliveries()
    assert Delivery.objects.count() == 1


def test_more_events_than_go_at_a_time(
    hook: Hook, ended_task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "EVENTS_PER_ROUND", 2)
    hook("a")
    hook("b")
    Event.objects.bulk_create(Event(task=ended_task, kind="finished") for _ in range(4))
    for expected in (4, 8, 10, 10):
        create_deliveries()
        assert Delivery.objects.count() == expected


def test_two_that_believe_they_lead_hand_out_once(hook: Hook, ended_task: Task) -> None:
    hook("a")
    hook("b")
    Event.objects.bulk_create(Event(task=ended_task, kind="finished") for _ in range(50))
    at_once(*[create_deliveries] * 3)
    assert Delivery.objects.count() == 51 * 2


# -- requests -------------------------------------------------------------------------------------


def test_a_signed_letter_arrives(
    hook: Hook,
    ended_task: Task,
    receiver: Receiver,
    post: ChoreThread,
    settings_with: Callable[..., None],
) -> None:
    settings_with(PUBLIC_URL="https://crawl.example.com")
    webhook = hook("in")
    create_deliveries()
    post.ensure_running()
    (told,) = receiver.wait(1)
    arrived(1)
    assert told.path == "/in"
    assert told.headers["Content-Type"] == "application/json"
    event = Event.objects.get()
    assert told.content["id"] == told.headers["webhook-id"] == f"evt_{event.pk}"
    assert told.content["kind"] == "finished"
    assert told.content["outcome"] == "finished_with_errors"
    assert told.content["reason"] == ended_task.reason
    task = told.content["task"]
    assert (task["id"], task["spider"], task["arguments"]) == (
        ended_task.pk,
        "shop",
        {"city": "Ulm"},
    )
    assert (task["state"], task["na"], task["nf"], task["ne"], task["items"]) == (
        "finished", 3, 2, 1, 2,
    )  # fmt: skip
    place = f"https://crawl.example.com/admin/crawlservice/task/{ended_task.pk}/change/"
    assert task["link"] == place
    assert verify(told, unseal(webhook.sealed_secret))
    assert not verify(told, new_secret())
    assert not verify(replace(told, body=told.body + b" "), unseal(webhook.sealed_secret))
    old = {**told.headers, "webhook-timestamp": "1700000000"}
    assert not verify(replace(told, headers=old), unseal(webhook.sealed_secret))
    assert abs(int(told.headers["webhook-timestamp"]) - time.time()) < 60
    delivery = Delivery.objects.get()
    assert (delivery.attempts, delivery.next_at, delivery.problem) == (1, None, "")


def test_it_is_tried_again_until_it_arrives(
    hook: Hook, receiver: Receiver, post: ChoreThread
) -> None:
    receiver.answers["/in"] = 503
    hook("in")
    create_deliveries()
    post.ensure_running()
    receiver.wait(1)
    until(lambda: Delivery.objects.get().problem != "", "no problem is told")
    delivery = Delivery.objects.get()
    assert delivery.problem == "it answered 503: <b>sorry</b>"
    assert delivery.next_at is not None
    assert (
        20 < (delivery.next_at - timezone.now()).total_seconds() <= RETRIES.pauses[0] * (1 + JITTER)
    )
    receiver.answers.clear()
    Delivery.objects.update(next_at=timezone.now() - timedelta(seconds=1))
    first, second = receiver.wait(2)
    arrived(1)
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert Delivery.objects.get().attempts == 2


def test_pauses_grow_up_to_a_day_and_then_it_is_given_up(hook: Hook) -> None:
    hook()
    create_deliveries()
    pauses = []
    for _ in range(len(RETRIES.pauses) + 1):
        Delivery.objects.update(next_at=timezone.now() - timedelta(seconds=1))
        ((letter, _message),) = OUTBOX.claim([], 5)
        OUTBOX.settle(letter, "it answered 500")
        if next_at := Delivery.objects.get().next_at:
            pauses.append((next_at - timezone.now()).total_seconds())
    assert pauses == sorted(pauses)
    assert len(pauses) == len(RETRIES.pauses)
    assert 20 * 3600 < sum(pauses) < 25 * 3600
    delivery = Delivery.objects.get()
    assert (delivery.next_at, delivery.delivered_at) == (None, None)
    assert delivery.problem == "it answered 500"
    assert list(OUTBOX.claim([], 5)) == []
    OUTBOX.send_again(delivery)
    ((letter, _message),) = OUTBOX.claim([], 5)
    assert letter.attempt == 1


def test_one_at_a_time_goes_to_each_webhook(hook: Hook, ended_task: Task) -> None:
    hooks = [hook("a").pk, hook("b").pk]
    Event.objects.bulk_create(Event(task=ended_task, kind="finished") for _ in range(3))
    create_deliveries()
    assert claimed([], 5) == hooks
    assert claimed([hooks[0]], 5) == hooks[1:]
    assert claimed(hooks, 5) == []
    assert claimed([], 1) == hooks[:1]


def claimed(busy: list[int], count: int) -> list[int]:
    """The webhooks that are to be sent to."""
    return [letter.receiver for letter, _message in OUTBOX.claim(busy, count)]


def test_a_disabled_webhook_is_not_sent_to(hook: Hook) -> None:
    hook()
    assert create_deliveries()
    Webhook.objects.update(enabled=False)
    assert not create_deliveries()
    assert list(OUTBOX.claim([], 5)) == []


def test_a_receiver_that_hangs_holds_up_nobody_else(
    hook: Hook, ended_task: Task, receiver: Receiver, published: Frontier
) -> None:
    receiver.hang = {"/hangs"}
    hook("hangs")
    hook("good")
    Event.objects.bulk_create(Event(task=ended_task, kind="finished") for _ in range(5))
    renew(published)
    steward = Steward(OPEN, published)
    steward.tick()
    receiver.wait(1, "/hangs")
    receiver.wait(6, "/good")
    # Chores continue: a node that dies meanwhile is replayed.
    task = submit("shop", {"city": "Bern"})
    published.leases.renew(1, 15)
    published.claim(1, 1, 10)
    published.leases.renew(1, 0.01)
    until(lambda: published.leases.left()[1] < 0, "the lease does not end")
    steward.tick()
    counts = published.counts(task.pk)
    assert counts is not None
    assert (counts.in_progress, counts.ready) == (0, 1)
    assert len(receiver.wait(1, "/hangs")) == 1  # it still hangs
    receiver.released.set()
    receiver.wait(6, "/hangs")
    arrived(12)
    steward.resign()
    until(
        lambda: not any(thread.name == "webhooks" for thread in threading.enumerate()),
        "the sender does not stop",
    )


# -- where it must not go -------------------------------------------------------------------------


def told_of(webhook: Webhook, node: Settings = OPEN) -> str:
    return send_now(node, sample_message(webhook))


def test_a_trial(hook: Hook, receiver: Receiver) -> None:
    webhook = hook("in")
    assert told_of(webhook) == ""
    (told,) = receiver.told
    assert told.content["kind"] == "test"
    assert told.headers["webhook-id"].startswith("evt_test_")
    assert verify(told, unseal(webhook.sealed_secret))


def test_redirects_are_not_followed(hook: Hook, receiver: Receiver) -> None:
    receiver.answers["/in"] = 302
    receiver.location = receiver.url + "other"
    assert "it redirects, which is not followed" in told_of(hook("in"))
    assert [told.path for told in receiver.told] == ["/in"]


def test_private_addresses_are_refused_before_anything_is_sent(
    hook: Hook, receiver: Receiver
) -> None:
    assert "CRAWLFRAME_WEBHOOK_PRIVATE" in told_of(hook("in"), Settings())
    url = receiver.url.replace("127.0.0.1", "localhost")
    assert "CRAWLFRAME_WEBHOOK_PRIVATE" in told_of(hook("by-name", url=url), Settings())
    assert receiver.told == []
    assert told_of(hook("crawled"), Settings(allow_private=LOOPBACK)) == ""


def test_other_problems_are_reported(hook: Hook) -> None:
    for url, words in (
        ("http://127.0.0.1:1/", "curl 7"),
        ("http://nowhere.invalid/", "curl 6"),
        ("ftp://127.0.0.1/", "http"),
        ("file:///etc/passwd", "http"),
        ("nonsense", ""),
    ):
        problem = told_of(hook(name=url, url=url))
        assert problem
        assert words in problem


def test_a_receiver_that_takes_too_long_is_left(
    hook: Hook, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawlservice.webhooks.sender.LIMITS", limits(timeout=0.3))
    receiver.hang = {"/in"}
    assert "within 0.3 s" in told_of(hook("in"))


def limits(**changes: Any) -> FetchLimits:
    return LIMITS._replace(**changes)
