"""Messages of alerts: made once, sent once where possible, never lost when a leader dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from ipaddress import ip_network
from typing import Any

import pytest
from django.conf import settings
from django.db.models.functions import Now

from crawlframe.frontier import Frontier
from crawlservice.alerts import announcements, state, wording
from crawlservice.alerts.announcements import announce
from crawlservice.alerts.channels import set_address
from crawlservice.alerts.condition import Alarm
from crawlservice.alerts.outbox import OUTBOX, AlertSender, send_again
from crawlservice.chores.threads import ChoreThread
from crawlservice.connections import clock
from crawlservice.models import (
    Alert,
    AlertMessage,
    AlertNotice,
    AlertReport,
    AlertRule,
    AlertTarget,
    Installation,
    Severity,
)
from crawlservice.steward import pruning, steward
from crawlservice.steward.pruning import Pruner
from tests.crawlservice.chores import at_once, until
from tests.crawlservice.receiver import Receiver

pytestmark = pytest.mark.usefixtures("orm")
both = pytest.mark.databases("sqlite", "postgres")

LOOPBACK = replace(settings.CRAWLFRAME, webhook_private=(ip_network("127.0.0.0/8"),))
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _no_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawlservice.monitoring.owners.published_spiders", dict)


@pytest.fixture
def target(receiver: Receiver) -> AlertTarget:
    return add_target("chat", receiver)


def add_target(name: str, receiver: Receiver) -> AlertTarget:
    target = AlertTarget(name=name)
    set_address(target, "service", f"{receiver.url.replace('http', 'json')}{name}", None)
    target.save()
    return target


def add_rule(*targets: AlertTarget, **fields: Any) -> AlertRule:
    rule = AlertRule.objects.create(**({"name": "all", "group_minutes": 0} | fields))
    rule.targets.set(targets)
    return rule


def find(now: datetime, *spiders: str, kind: str = "task_failed") -> None:
    """Records the findings of a leader at this time."""
    findings = [
        Alarm(kind, name, now, {"spider": name, "task": 7, "reason": "no pages"}, spider=name)
        for name in spiders
    ]
    state.record({kind: findings}, {}, now)


def titles() -> list[str]:
    return [*AlertMessage.objects.order_by("pk").values_list("title", flat=True)]


@pytest.fixture
def sending() -> Iterator[Callable[[], None]]:
    """Runs a sender until the test ends."""
    senders: list[ChoreThread] = []

    def start() -> None:
        senders.append(ChoreThread("alerts", lambda: AlertSender(LOOPBACK)))
        senders[-1].ensure_running()

    yield start
    for sender in senders:
        sender.stop()
        if sender._thread is not None:
            sender._thread.join(60)


def test_from_found_to_resolved(target: AlertTarget) -> None:
    add_rule(target)
    began = clock.now() - HOUR
    find(began, "shop", "news")
    assert announce(began + timedelta(minutes=1))
    assert titles() == ["[Crawlframe] severe: task failed (2)"]
    text = AlertMessage.objects.get().text
    assert "• shop #7 failed: no pages (since " in text
    assert "• news #7" in text
    assert not announce(began - HOUR)  # nothing more, and not yet due by that clock
    find(began + HOUR / 2, "news")
    announce(began + HOUR)
    find(began + HOUR / 2)
    announce(began + HOUR)
    assert titles()[1:] == [
        "[Crawlframe] resolved: shop #7 failed: no pages",
        "[Crawlframe] resolved: news #7 failed: no pages",
    ]
    assert "Resolved:" in AlertMessage.objects.all()[0].text
    announce(began + 2 * HOUR)
    assert len(titles()) == 3
    assert not AlertNotice.objects.filter(over=False).exists()


def test_without_a_rule_nothing_is_sent(target: AlertTarget) -> None:
    find(clock.now() - HOUR, "shop")
    assert not announce(clock.now())
    rule = add_rule()  # without a target
    assert not announce(clock.now())
    AlertRule.objects.update(enabled=False)
    rule.targets.set([target])
    assert not announce(clock.now())
    AlertRule.objects.update(enabled=True)
    assert announce(clock.now())
    assert AlertNotice.objects.count() == 1


def test_each_target_gets_its_own(target: AlertTarget, receiver: Receiver) -> None:
    add_rule(target, add_target("pager", receiver), add_target("off", receiver))
    AlertTarget.objects.filter(name="off").update(enabled=False)
    find(clock.now() - HOUR, "shop")
    announce(clock.now())
    assert {message.target.name for message in AlertMessage.objects.all()} == {"chat", "pager"}


def test_two_rules_with_one_target_tell_it_once(target: AlertTarget, receiver: Receiver) -> None:
    """New, again and resolved; a target of only one of them is told by that one."""
    began = clock.now() - 3 * HOUR
    both, other = add_target("pager", receiver), target
    add_rule(both, repeat_hours=1)
    add_rule(both, other, name="failed", kinds=["task_failed"], repeat_hours=1)

    def told(name: str) -> list[str]:
        rows = AlertMessage.objects.filter(target__name=name).order_by("pk")
        return [*rows.values_list("title", flat=True)]

    find(began, "shop")
    announce(began + HOUR / 4)
    announce(began + HOUR / 3)
    assert len(told("pager")) == len(told(other.name)) == 1
    find(began + HOUR / 2, "shop", "news")  # one that both know, and one that is new
    announce(began + HOUR * 3 / 4)
    assert (
        told("pager")[1:]
        == told(other.name)[1:]
        == ["[Crawlframe] severe: news #7 failed: no pages"]
    )
    announce(began + 1.5 * HOUR)  # shop is due again
    announce(began + 1.5 * HOUR)
    assert len(told("pager")) == len(told(other.name)) == 3
    find(began + 1.6 * HOUR)
    announce(began + 1.7 * HOUR)
    announce(began + 1.7 * HOUR)
    assert told("pager")[3:] == told(other.name)[3:] == ["[Crawlframe] resolved: task failed (2)"]
    assert not AlertNotice.objects.filter(over=False).exists()


def test_a_target_that_a_rule_got_later_is_told_by_the_other_rule(
    target: AlertTarget, receiver: Receiver
) -> None:
    began = clock.now() - HOUR
    first = add_rule(add_target("pager", receiver))
    find(began, "shop")
    announce(began + HOUR / 4)
    first.targets.add(target)
    add_rule(target, name="late")
    announce(began + HOUR / 2)
    assert [message.target.name for message in AlertMessage.objects.order_by("pk")] == [
        "pager", "chat",
    ]  # fmt: skip


def test_a_rule_without_resolved_messages_is_done_when_it_is_over(target: AlertTarget) -> None:
    add_rule(target, reports_resolved=False)
    find(clock.now() - HOUR, "shop")
    announce(clock.now())
    find(clock.now())
    announce(clock.now())
    assert len(titles()) == 1
    assert AlertNotice.objects.get().over


def test_a_rule_that_was_disabled_meanwhile_does_not_tell_of_it_later(target: AlertTarget) -> None:
    add_rule(target)
    find(clock.now() - HOUR, "shop")
    announce(clock.now())
    AlertRule.objects.update(enabled=False)
    find(clock.now())
    announce(clock.now())
    AlertRule.objects.update(enabled=True)
    announce(clock.now() + HOUR)
    assert len(titles()) == 1


def test_long_lists_are_cut(target: AlertTarget, settings_with: Any) -> None:
    settings_with(PUBLIC_URL="https://crawl.example")
    add_rule(target)
    find(clock.now() - HOUR, *(f"spider-{n}" for n in range(100)))
    announce(clock.now())
    text = AlertMessage.objects.get().text
    assert len(text) < 2000
    assert text.count("\n•") + 1 == wording.MAX_ALERTS
    assert text.splitlines()[-1] == (
        "… and 92 more: https://crawl.example/admin/crawlservice/alert/?kind=task_failed"
    )


def test_messages_are_english_whatever_the_reader(target: AlertTarget) -> None:
    from django.utils import translation

    add_rule(target)
    find(clock.now() - HOUR, "shop")
    with translation.override("zh-hans"):
        announce(clock.now())
    assert titles() == ["[Crawlframe] severe: shop #7 failed: no pages"]


@both
def test_an_alert_is_open_once_however_many_look(database: str) -> None:
    """Two stewards that both believe to lead."""
    now = clock.now()
    at_once(*[lambda: find(now, "shop", "news")] * 4)
    assert Alert.objects.count() == 2


@both
def test_a_message_is_made_once_however_many_announce(target: AlertTarget) -> None:
    add_rule(target)
    find(clock.now() - HOUR, "shop")
    now = clock.now()
    at_once(*[lambda: announce(now)] * 4)
    assert len(titles()) == 1


@both
def test_a_leader_that_dies_while_it_announces_loses_nothing(
    target: AlertTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each of its writes: its earlier writes are undone, and the next leader writes all."""
    add_rule(target)
    find(clock.now() - HOUR, "shop")

    class Died(BaseException):
        pass

    def die(*args: Any, **kwargs: Any) -> None:
        raise Died

    for model in (AlertMessage, AlertNotice, AlertReport):
        with monkeypatch.context() as patch:
            patch.setattr(model.objects, "bulk_create", die)
            with pytest.raises(Died):
                announce(clock.now())
        assert (AlertMessage.objects.count(), AlertNotice.objects.count()) == (0, 0)
    with monkeypatch.context() as patch:
        patch.setattr(announcements, "_finish", die)  # after its last write
        with pytest.raises(Died):
            announce(clock.now())
    assert AlertMessage.objects.count() == 0
    announce(clock.now())
    announce(clock.now())
    assert len(titles()) == 1


def test_a_leader_that_dies_between_evaluating_and_sending(
    target: AlertTarget, receiver: Receiver, sending: Callable[[], None]
) -> None:
    add_rule(target)
    find(clock.now() - HOUR, "shop")
    announce(clock.now())  # and here it dies
    announce(clock.now())  # the next one
    sending()
    sending()  # the first one was not dead after all
    receiver.wait(1)
    until(lambda: AlertMessage.objects.filter(sent_at__isnull=False).exists())
    assert len(receiver.told) == 1
    assert receiver.told[0].path == "/chat"
    assert receiver.told[0].content["title"].startswith("[Crawlframe] severe: shop #7")


def test_what_is_sent_again_has_another_key(target: AlertTarget) -> None:
    add_rule(target)
    find(clock.now() - HOUR, "shop")
    announce(clock.now())
    row = AlertMessage.objects.get()
    key = row.key
    send_again(row)
    ((claim, message),) = OUTBOX.claim([], 9)
    assert claim.attempt == 1
    assert message.key != str(key)  # else its receiver would take it for one that it knows
    OUTBOX.settle(claim, "", reply="it answered 200")
    row.refresh_from_db()
    assert row.sent_at is not None
    assert (row.problem, row.reply) == ("", "it answered 200")


def test_a_target_that_hangs_holds_nobody_up(
    target: AlertTarget, receiver: Receiver, sending: Callable[[], None]
) -> None:
    receiver.hang.add("/chat")
    add_rule(target, add_target("pager", receiver))
    find(clock.now() - HOUR, "shop")
    announce(clock.now())
    sending()
    receiver.wait(1, "/pager")
    find(clock.now() - HOUR, "news", kind="task_errors")
    receiver.released.set()


def test_the_leading_steward_does_it_all(
    published: Frontier, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    from crawlservice.connections.frontier import use

    Installation.objects.get_or_create(pk=1)
    add_rule(add_target("chat", receiver), least_severity=Severity.WARNING)
    from crawlservice.models import Host

    Host.objects.create(name="a.example", held_why="blocked", held_since=clock.now())
    monkeypatch.setattr("crawlservice.hosts.chores.record_held", lambda frontier: None)
    use(published)
    one = steward.Steward(LOOPBACK, published)
    try:
        one.tick()
        alert = Alert.objects.get()
        assert alert.kind == "host_held"
        assert state.checked_at() is not None
        Alert.objects.update(opened_at=clock.now() - HOUR)
        one.job("alerts")._next = 0.0
        one.tick()
        (told,) = receiver.wait(1)
        assert "a.example blocks" in told.content["title"]
    finally:
        one.resign()


def test_old_alerts_and_messages_are_deleted(target: AlertTarget) -> None:
    add_rule(target)
    find(clock.now() - 100 * 24 * HOUR, "shop", "news")
    announce(clock.now())
    find(clock.now(), "news")
    announce(clock.now())
    AlertMessage.objects.update(sent_at=Now(), next_at=None)
    old = clock.now() - 40 * 24 * HOUR
    AlertMessage.objects.update(created_at=old)
    Alert.objects.filter(resolved_at__isnull=False).update(resolved_at=old)
    pruner = Pruner(lambda: ())
    for _ in range(3 * len(pruning.KINDS)):
        pruner.tick()
    assert [*Alert.objects.values_list("subject", flat=True)] == ["news"]
    assert AlertNotice.objects.get().alert.subject == "news"
    assert AlertMessage.objects.count() == 0
