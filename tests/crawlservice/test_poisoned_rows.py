"""Each chore of the leader gets a row on which it fails, and one in good order behind it: this one
is worked on, and the other is named. A chore without such a test fails this module."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import OperationalError, ProgrammingError, connection
from django.test import override_settings
from django.utils import timezone

from crawlframe.conf import Settings
from crawlframe.frontier import Frontier
from crawlframe.run.ledger import LedgerAway
from crawlframe.spider.spider import describe
from crawlservice import node_settings
from crawlservice.accounts.roles import ROLES, _named, give_role
from crawlservice.chores.chore import chores
from crawlservice.connections import contained
from crawlservice.ledger import reconcile
from crawlservice.ledger.named_errors import named_errors
from crawlservice.ledger.recovery import is_whole, renew
from crawlservice.models import (
    Alert,
    AlertMessage,
    AlertRule,
    AlertTarget,
    BulkRetry,
    Delivery,
    Era,
    Event,
    Export,
    Host,
    Page,
    Profile,
    ProxySource,
    Schedule,
    Severity,
    Task,
    Watch,
    Webhook,
)
from crawlservice.security.sealing import seal
from crawlservice.steward import pruning
from crawlservice.steward.steward import Steward
from crawlservice.tasks.overrides import may_be_rough
from crawlservice.tasks.submit import submit
from crawlservice.webhooks.chores import send_new
from tests.crawlservice.graph import GraphCrawl
from tests.crawlservice.test_steward import turn_until
from tests.crawlservice.watches.conftest import News

both = pytest.mark.databases("sqlite", "postgres")

Done = Callable[[], bool]
JUNK = b"\xc1"  # not msgpack


def task(**fields: Any) -> Task:
    made = submit("shop", {"city": "Ulm"})
    Task.objects.filter(pk=made.pk).update(**fields)
    return made


def state_of(row: Task) -> str:
    return Task.objects.values_list("state", flat=True).get(pk=row.pk)


def time_limits(monkeypatch: pytest.MonkeyPatch) -> Done:
    past = timezone.now() - timedelta(hours=1)
    task(settings={"time_limit": "soon"}, deadline=past)
    good = task(settings={"time_limit": 1}, deadline=past)
    return lambda: state_of(good) in ("cancelling", "finished")


def tasks(monkeypatch: pytest.MonkeyPatch) -> Done:
    from crawlservice.connections.frontier import frontier

    bad, good = task(retries=1, seeds=JUNK), task(retries=1)
    for one in (bad, good):
        frontier().cancel(one.pk)
        frontier().close_tasks([one.pk])
    return lambda: frontier().is_open(good.pk)


def hosts(monkeypatch: pytest.MonkeyPatch) -> Done:
    for name, delay in (("bad.example", float("inf")), ("good.example", 1.0)):
        Host.objects.create(name=name, delay=delay, ordered_at=timezone.now(), unsent="order")
    return lambda: Host.objects.get(name="good.example").unsent == ""


def proxies(monkeypatch: pytest.MonkeyPatch) -> Done:
    arguments = {"bad": "no JSON", "good": '{"city": "Ulm"}'}
    for name, place in arguments.items():
        ProxySource.objects.create(name=name, spider="shop", sealed_place=seal(place), every=60)
    return lambda: ProxySource.objects.get(name="good").run > 0


def schedules(monkeypatch: pytest.MonkeyPatch) -> Done:
    for name, labels in (("bad", 5), ("good", {})):
        due = timezone.now() - timedelta(seconds=5)
        Schedule.objects.create(
            name=name, spider="shop", arguments={"city": "Ulm"}, every=3600, labels=labels,
            next_at=due,
        )  # fmt: skip
    return lambda: Schedule.objects.get(name="good").runs.filter(outcome="submitted").exists()


def watches(monkeypatch: pytest.MonkeyPatch) -> Done:
    good = Watch.objects.create(spider="news", arguments={})
    bad = Watch.objects.create(spider="news", arguments={}, groups=[7])
    return lambda: (
        Task.objects.filter(watch=good).exists()
        and "it cannot continue" in Watch.objects.get(pk=bad.pk).problem
    )


def bulk_retries(monkeypatch: pytest.MonkeyPatch) -> Done:
    numbers = {"first_page": 0, "last_page": 9, "all_tasks": 1, "all_errors": 1}
    BulkRetry.objects.create(spider="shop", tasks=[5], **numbers)
    good = BulkRetry.objects.create(spider="shop", tasks=[[10**9, 1]], **numbers)
    return lambda: BulkRetry.objects.get(pk=good.pk).state == BulkRetry.State.DONE


def webhooks(monkeypatch: pytest.MonkeyPatch) -> Done:
    for name, kinds in (("bad", 5), ("good", [])):
        Webhook.objects.create(name=name, url="http://127.0.0.1:9/", kinds=kinds, sealed_secret="")
    Event.objects.create(kind=Event.Kind.NODE_BACK, node="n")
    return lambda: Delivery.objects.filter(webhook__name="good").exists()


def signals(monkeypatch: pytest.MonkeyPatch) -> Done:
    send_new()
    old = timezone.now() - timedelta(minutes=1)
    details: list[Any] = [[1], {}]
    for detail in details:
        event = Event.objects.create(kind=Event.Kind.QUALITY_FAILED, detail=detail)
        Event.objects.filter(pk=event.pk).update(created_at=old)
    return lambda: send_new() == 2


def alerts(monkeypatch: pytest.MonkeyPatch) -> Done:
    old = timezone.now() - timedelta(hours=1)
    target = AlertTarget.objects.create(name="ops", kind="mail", sealed_address=seal("a@b.example"))
    for name, fields in (("a bad", {"kinds": 5, "thresholds": []}), ("good", {})):
        rule = AlertRule.objects.create(name=name, **fields)
        rule.targets.add(target)
    Alert.objects.create(
        kind="own", severity=Severity.SEVERE, since=old, opened_at=old, seen_at=old
    )
    return lambda: AlertMessage.objects.filter(rule__name="good", kind="own").exists()


def exports(monkeypatch: pytest.MonkeyPatch) -> Done:
    for name in ("bad", "other"):
        Export.objects.create(name=name, target=5)
    return lambda: Export.objects.filter(problem__contains="TypeError").count() == 2


def pruned(monkeypatch: pytest.MonkeyPatch) -> Done:
    def poisoned() -> Any:
        raise TypeError("poisoned")

    monkeypatch.setattr(pruning, "KINDS", (poisoned, pruning.old_alerts))
    monkeypatch.setattr(settings, "KEEP_EVENTS", 1)
    old = timezone.now() - timedelta(days=9)
    Alert.objects.create(
        kind="over", severity=1, since=old, opened_at=old, seen_at=old, resolved_at=old
    )
    return lambda: not Alert.objects.filter(kind="over").exists()


def cancelled(monkeypatch: pytest.MonkeyPatch) -> Done:
    ended = {"state": Task.State.CANCELLED, "unwritten": 1, "na": 1}
    task(**ended, seeds=JUNK)
    good = task(**ended)
    return lambda: Page.objects.filter(task=good).count() == 1


def quality(monkeypatch: pytest.MonkeyPatch) -> Done:
    ended = {"state": Task.State.FINISHED, "outcome": "finished", "finished_at": timezone.now()}
    bad, good = task(**ended), task(**ended)
    Profile.objects.create(task=bad, spider="shop", content=JUNK, action_due="")
    Profile.objects.create(task=good, spider="shop", content=b"")
    return lambda: Profile.objects.get(task=good).judged


def dead_nodes(monkeypatch: pytest.MonkeyPatch) -> Done:
    from crawlservice.connections.frontier import frontier

    def replay(there: Frontier, generation: int) -> int:
        if generation == 8:
            raise TypeError("poisoned")
        return reconcile.replay(there, generation)

    monkeypatch.setattr("crawlservice.steward.nodes.replay", replay)
    for generation in (8, 9):
        frontier().leases.renew(generation, 0.001)
    return lambda: {*frontier().leases.left()} == {8}


POISONED: dict[str, Callable[[pytest.MonkeyPatch], Done]] = {
    "dead nodes": dead_nodes,
    "time limits": time_limits,
    "tasks": tasks,
    "hosts": hosts,
    "proxies": proxies,
    "schedules": schedules,
    "watches": watches,
    "bulk retries": bulk_retries,
    "webhooks": webhooks,
    "signals": signals,
    "alerts": alerts,
    "exports": exports,
    "pruning": pruned,
    "cancelled requests": cancelled,
    "quality": quality,
}
# Each database has a thread, which is restarted; tasks that cannot be brought back are below, and
# runs of which no case can be made are in test_case_night.py.
OTHERS = {"rows for other databases", "Redis", "the file of exports", "cases"}


def test_every_chore_has_one(service: Frontier) -> None:
    names = {chore.name for chore in chores() if not chore.everywhere}
    assert names == POISONED.keys() | OTHERS


@pytest.mark.parametrize("chore", POISONED)
def test_a_poisoned_row_holds_up_no_other(
    published: Frontier, monkeypatch: pytest.MonkeyPatch, chore: str
) -> None:
    published.spiders.publish([describe(News)])
    renew(published)
    steward = Steward(Settings(), published)
    done = POISONED[chore](monkeypatch)
    turn_until(steward, done)
    if chore != "exports":  # they note their problems themselves
        told = steward._news()
        assert told.failures > 0
        assert told.waits
    assert is_whole(published)
    steward.resign()


@both
def test_a_row_that_is_too_much_for_the_database_or_names_no_file_holds_up_no_other(
    service: Frontier,
) -> None:
    """Neither is a lost connection, though Django and Python call it alike."""
    with contained.contained("a file"):
        Path("/nowhere").read_bytes()
    with contained.contained("a type"), named_errors():
        raise ProgrammingError("can't adapt type 'dict'")
    with pytest.raises(LedgerAway), contained.contained("a connection"), named_errors():
        raise OperationalError("server closed the connection unexpectedly")
    if connection.vendor == "postgresql":
        with contained.contained("a row"), connection.cursor() as cursor:
            cursor.execute("SELECT array_fill(1, ARRAY[1000000000])")
    assert contained.failures.lately() > 0


def test_a_task_that_cannot_end_holds_up_no_other(service: Frontier) -> None:
    renew(service)
    for refused in (5, None):
        crawl = GraphCrawl(service, pages=3)
        Task.objects.filter(pk=crawl.task.pk).update(refused=refused)
        while crawl.work(service, 9):
            pass
    turn_until(Steward(Settings(), service), lambda: state_of(crawl.task) == Task.State.FINISHED)
    assert contained.failures.lately() > 0
    assert Era.objects.count() == 1


def test_a_task_that_cannot_be_brought_back_is_paused_and_the_era_opens(service: Frontier) -> None:
    renew(service)
    bad, good = GraphCrawl(service), GraphCrawl(service)
    Task.objects.filter(pk=bad.task.pk).update(seeds=JUNK)
    service.store.redis.flushall()
    renew(service)
    assert is_whole(service)
    assert state_of(bad.task) == Task.State.PAUSED
    assert good.work(service, 1) == 1


def test_roles_hold_in_the_settings_of_nodes(service: Frontier) -> None:
    """The leader checks tasks of watches and schedules against the roles of their owners."""
    told = node_settings.AUTHENTICATION_BACKENDS
    with override_settings(AUTHENTICATION_BACKENDS=told):
        for role, permissions in ROLES.items():
            give_role(User.objects.create_user(role), role)
            user = User.objects.get(username=role)
            assert user.get_all_permissions() == _named(permissions)
            assert all(map(user.has_perm, _named(permissions))), role
            assert may_be_rough(user) == (role in ("operator", "administrator"))


@pytest.mark.parametrize("role", ["submitter", "operator", "superuser"])
def test_a_watch_of_anybody_goes_on(published: Frontier, role: str) -> None:
    published.spiders.publish([describe(News)])
    renew(published)
    user = User.objects.create_user(role)
    give_role(user, role)
    watch = Watch.objects.create(spider="news", user=user, overrides={"concurrency": 2})
    with override_settings(AUTHENTICATION_BACKENDS=node_settings.AUTHENTICATION_BACKENDS):
        turn_until(
            Steward(Settings(), published), lambda: Task.objects.filter(watch=watch).exists()
        )
