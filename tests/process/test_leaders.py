"""The leading steward of real nodes is killed: schedules start once for each due time, and each
alert is reported once, whoever leads."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from django.conf import settings
from django.utils import timezone

from crawlservice.alerts.channels import set_address
from crawlservice.models import Alert, AlertMessage, AlertRule, AlertTarget, Run, Schedule, Task
from tests.conftest import Running
from tests.crawlservice.receiver import Receiver
from tests.process.conftest import Look, OddWeb, wait_for

pytestmark = pytest.mark.process

EVERY = 1  # seconds


def fail(name: str) -> None:
    """Makes this schedule unable to start; it is not due before long."""
    later = timezone.now().replace(year=2999)
    problem = {"problem": "there is no spider gone", "problem_since": timezone.now()}
    Schedule.objects.create(name=name, spider="gone", every=10**6, next_at=later, **problem)


@pytest.mark.databases("postgres")
def test_the_next_leader_does_what_is_left_and_nothing_twice(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    look: Look,
    web: OddWeb,
    receiver: Receiver,
) -> None:
    odd_env["CRAWLFRAME_SECRET_KEY"] = settings.SECRET_KEY  # which seals the address
    target = AlertTarget(name="chat")
    set_address(target, "service", f"{receiver.url.replace('http', 'json')}chat", None)
    target.save()
    AlertRule.objects.create(name="all", kinds=["schedule"], group_minutes=0).targets.add(target)
    often = Schedule.objects.create(
        name="often", spider="odd", arguments={"url": web.url}, every=EVERY, overlap="allow"
    )
    runs = Run.objects.filter(schedule=often)
    fail("first")
    leader = start_manage("runcrawler", "--workers", 1, "--node", "alpha")
    wait_for(lambda: runs.exists() and Alert.objects.exists())
    other = start_manage("runcrawler", "--workers", 1, "--node", "beta")
    wait_for(lambda: len(look.frontier.leases.nodes()) == 2)
    before = runs.count()
    wait_for(lambda: runs.count() >= before + 2)
    assert "leads now" not in other.output
    receiver.wait(1, timeout=90)

    # Killed when the message of an alert was made, or before: the other one sends it.
    fail("second")
    wait_for(lambda: Alert.objects.count() == 2)
    leader.process.kill()
    leader.process.wait()
    killed = timezone.now()
    wait_for(lambda: AlertMessage.objects.filter(sent_at__isnull=False).count() == 2)
    wait_for(lambda: runs.filter(created_at__gt=killed).count() >= 3)
    titles = [told.content["title"] for told in receiver.told]
    assert [title.split()[3] for title in titles] == ["first", "second"]
    assert AlertMessage.objects.count() == 2

    often.enabled = False
    often.save(update_fields=["enabled"])
    wait_for(lambda: not Task.objects.filter(state__in=Task.ACTIVE).exists())
    found = list(runs.order_by("due_at"))
    assert {run.outcome for run in found} == {"submitted"}
    assert len({run.task_id for run in found}) == len(found) == Task.objects.count()
    for one, following in pairwise(found):
        gap = (following.due_at - one.due_at).total_seconds()
        assert gap % EVERY == 0
        assert gap == EVERY or "also for those missed" in following.problem
    assert {look.finishes(task.pk) for task in Task.objects.all()} == {1}
