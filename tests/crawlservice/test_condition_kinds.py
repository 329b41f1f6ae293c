"""Alert conditions are objects: ours keep the contract, and packages can add some."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from django.utils.translation import gettext_lazy as _

from crawlframe.frontier import Frontier
from crawlservice.alerts import state, wording
from crawlservice.alerts.chores import AlertMonitor
from crawlservice.alerts.condition import GROUP, Alarm, Condition, ServiceView, conditions
from crawlservice.alerts.conditions.deliveries import WEBHOOK_FAILS
from crawlservice.alerts.conditions.hosts import HOST_HELD
from crawlservice.alerts.conditions.schedules import SCHEDULE
from crawlservice.alerts.rule_fields import check_kinds
from crawlservice.connections import clock
from crawlservice.kinds import registry
from crawlservice.ledger.recovery import renew
from crawlservice.models import (
    Alert,
    Delivery,
    Event,
    Host,
    Installation,
    Schedule,
    Severity,
    Webhook,
)
from crawlservice.testing.condition_contract import ConditionContract

pytestmark = pytest.mark.usefixtures("orm")


def view() -> ServiceView:
    def nowhere() -> Frontier:
        raise AssertionError("it needs no Redis")

    least = {one.name: one.threshold.usual for one in conditions().values() if one.threshold}
    return ServiceView(clock.now(), nowhere, [], least)


def fail(name: str = "pager", minutes: float = 10, **fields: Any) -> Delivery:
    webhook, _ = Webhook.objects.get_or_create(name=name, url="http://x/", sealed_secret="")
    at = clock.now() - timedelta(minutes=minutes)
    event = Event.objects.create(kind="node_back", node="n", created_at=at)
    return Delivery.objects.create(
        webhook=webhook, event=event, **({"problem": "it answered 500", "attempts": 1} | fields)
    )


class TestWebhookFails(ConditionContract):
    condition = WEBHOOK_FAILS

    def arrange(self) -> ServiceView:
        fail()
        return view()


class TestHostHeld(ConditionContract):
    condition = HOST_HELD

    def arrange(self) -> ServiceView:
        Host.objects.create(name=f"h{Host.objects.count()}", held_why="blocked")
        return view()


class TestSchedule(ConditionContract):
    condition = SCHEDULE

    def arrange(self) -> ServiceView:
        name = f"s{Schedule.objects.count()}"
        Schedule.objects.create(name=name, spider="shop", every=60, problem="no spider\nshop")
        return view()


# -- a webhook that fails --------------------------------------------------------------------------


def failing() -> dict[str, Alarm]:
    found = [one for one in WEBHOOK_FAILS.find(view()) if isinstance(one, Alarm)]
    return {one.facts["webhook"]: one for one in found}


def test_a_webhook_fails_until_something_arrives_there() -> None:
    first = fail()
    found = failing()["pager"]
    assert found.since == first.event.created_at
    assert WEBHOOK_FAILS.sentence(found.facts) == (
        "Webhook pager does not take events: it answered 500"
    )
    place = f"/admin/crawlservice/delivery/?webhook__id__exact={first.webhook_id}"
    assert WEBHOOK_FAILS.link(found.facts) == place
    fail(next_at=None, problem="given up")
    assert failing()["pager"].facts["problem"] == "given up"  # failed is failed
    fail(problem="", delivered_at=clock.now(), next_at=None)
    assert failing() == {}
    fail(minutes=1)
    assert failing()["pager"].since == first.event.created_at


def test_waiting_old_and_disabled_webhooks_do_not_fail() -> None:
    fail("new", minutes=1)
    fail("off")
    Webhook.objects.filter(name="off").update(enabled=False)
    fail("waiting", problem="", attempts=0)
    fail("long ago", minutes=8 * 24 * 60)
    assert failing() == {}


# -- conditions of packages ------------------------------------------------------------------------

RAIN = Condition(
    "rain",
    _("it rains"),
    Severity.NOTICE,
    lambda view: [Alarm("rain", "roof", view.now, {"where": "roof"})],
    lambda facts: f"It rains on the {facts['where']}.",
)
BROKEN = replace(RAIN, name="silent")


@pytest.fixture
def installed(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., None]]:
    """Installs packages with these entry points."""

    def install(**places: str) -> None:
        points = [EntryPoint(name, place, GROUP) for name, place in places.items()]
        monkeypatch.setattr(
            registry, "entry_points", lambda group: points if group == GROUP else []
        )
        conditions.cache_clear()

    yield install
    monkeypatch.undo()
    conditions.cache_clear()


def test_a_condition_of_a_package_is_found_told_and_chosen(
    service: Frontier, installed: Callable[..., None]
) -> None:
    installed(rain=f"{__name__}:RAIN")
    Installation.objects.get_or_create(pk=1)
    renew(service)
    monitor = AlertMonitor(service)
    monitor.look(clock.now(), {})
    alert = Alert.objects.get(kind="rain")
    assert (wording.sentence(alert), alert.severity) == ("It rains on the roof.", Severity.NOTICE)
    assert wording.place(alert) == f"/admin/crawlservice/alert/{alert.pk}/change/"
    assert check_kinds(["rain"]) == ["rain"]
    assert [*conditions()][-1] == "rain"
    installed()  # the package was removed
    assert wording.sentence(alert) == "rain of roof"
    state.get_open(alert.pk)


def test_what_cannot_be_used_is_named_and_left_out(
    installed: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    installed(
        rain=f"{__name__}:RAIN", gone="no_such_package:X", odd=f"{__name__}:view",
        snow=f"{__name__}:RAIN", silent=f"{__name__}:BROKEN",
    )  # fmt: skip
    assert {*conditions()} >= {"rain", "silent", "disk"}
    assert conditions()["silent"].severity == Severity.SEVERE  # ours stays
    said = [record.getMessage() for record in caplog.records]
    for name in ("gone", "odd", "snow", "silent"):
        assert any(f"{GROUP}: {name} = " in line for line in said), name
    assert {*conditions()}.isdisjoint({"gone", "odd", "snow"})


def test_ours_are_listed_by_severity_and_urgency() -> None:
    known = [*conditions().values()]
    assert [one.severity for one in known] == sorted((one.severity for one in known), reverse=True)
    assert known[0].name == "no_leader"
    assert len(known) == 20
