"""Alerts on real nodes: reported once, whichever node leads, also when the leader is killed."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest
from django.conf import settings

from crawlservice.alerts.channels import set_address
from crawlservice.connections import clock
from crawlservice.models import Alert, AlertMessage, AlertRule, AlertTarget, Schedule
from tests.conftest import Running
from tests.crawlservice.receiver import Receiver
from tests.process.conftest import Look, wait_for

pytestmark = pytest.mark.process


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    yield found
    found.close()


def fail(name: str) -> None:
    """Makes this schedule unable to start; it is not due before long."""
    Schedule.objects.create(
        name=name, spider="gone", every=10**6, next_at=clock.now().replace(year=2999),
        problem="there is no spider gone", problem_since=clock.now(),
    )  # fmt: skip


def test_each_alert_is_reported_once_also_when_the_leader_is_killed(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    look: Look,
    receiver: Receiver,
) -> None:
    odd_env["CRAWLFRAME_SECRET_KEY"] = settings.SECRET_KEY  # which seals the address
    target = AlertTarget(name="chat")
    set_address(target, "service", f"{receiver.url.replace('http', 'json')}chat", None)
    target.save()
    AlertRule.objects.create(name="all", kinds=["schedule"], group_minutes=0).targets.add(target)
    fail("first")
    leader = start_manage("runcrawler", "--workers", 1, "--node", "alpha")
    wait_for(lambda: Alert.objects.exists())
    start_manage("runcrawler", "--workers", 1, "--node", "beta")
    wait_for(lambda: len(look.frontier.leases.nodes()) == 2)
    receiver.wait(1, timeout=90)
    # Killed when the message was made or before: the other one sends it.
    fail("second")
    wait_for(lambda: Alert.objects.count() == 2)
    leader.process.send_signal(signal.SIGKILL)
    leader.process.wait()
    wait_for(lambda: AlertMessage.objects.filter(sent_at__isnull=False).count() == 2)
    titles = [told.content["title"] for told in receiver.told]
    assert [title.split()[3] for title in titles] == ["first", "second"]
    assert AlertMessage.objects.count() == 2
