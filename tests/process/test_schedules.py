"""Schedules run by whole nodes: once for each due time, whoever leads."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from crawlservice.models import Run, Schedule, Task
from tests.conftest import Running
from tests.crawlservice.conftest import redis_at
from tests.process.conftest import LONGEST_WAIT, Look, OddWeb

pytestmark = pytest.mark.process

Start = Callable[..., Running]
EVERY = 1  # seconds
SHOWN = 20  # runs: no more than a page of the list


def wait(ready: Callable[[], bool], what: str, timeout: float = LONGEST_WAIT) -> None:
    deadline = time.monotonic() + timeout
    while not ready():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


@pytest.mark.databases("postgres")
def test_once_for_each_due_time_also_when_the_leader_is_killed(
    odd_env: dict[str, str], start_manage: Start, look: Look, web: OddWeb
) -> None:
    schedule = Schedule.objects.create(
        name="often", spider="odd", arguments={"url": web.url}, every=EVERY, overlap="allow"
    )
    runs = Run.objects.filter(schedule=schedule)
    leader = start_manage("runcrawler", "--workers", 1, "--node", "alpha")
    wait(lambda: runs.count() >= 1, "the schedule did not start")
    other = start_manage("runcrawler", "--workers", 1, "--node", "beta")
    wait(lambda: len(look.frontier.leases.nodes()) == 2, "no second node came")
    before = runs.count()
    wait(lambda: runs.count() >= before + 2, "beside a second node nothing was started")
    assert "leads now" not in other.output

    leader.process.send_signal(signal.SIGKILL)
    killed = timezone.now()
    wait(lambda: runs.filter(created_at__gt=killed).count() >= 3, "nobody took over")
    taken_over = runs.filter(created_at__gt=killed).earliest("created_at").created_at
    print(f"fail-over took {(taken_over - killed).total_seconds():.1f} s")

    Schedule.objects.update(enabled=False)
    wait(lambda: not Task.objects.filter(state__in=Task.ACTIVE).exists(), "tasks did not end")
    found = list(runs.order_by("due_at"))
    assert {run.outcome for run in found} == {"submitted"}
    assert len({run.task_id for run in found}) == len(found) == Task.objects.count()
    for one, following in pairwise(found):
        gap = (following.due_at - one.due_at).total_seconds()
        assert gap % EVERY == 0
        assert gap == EVERY or "also for those missed" in following.problem
    assert {look.finishes(task.pk) for task in Task.objects.all()} == {1}

    browser = Client(SERVER_NAME="localhost")
    browser.force_login(User.objects.create_superuser("boss"))
    with redis_at(odd_env["REDIS_URL"]):
        listed = browser.get("/admin/crawlservice/run/").content.decode()
    for run in found[-SHOWN:]:
        assert listed.count(f"{run.due_at:%Y-%m-%d %H:%M:%S}</time>") == 1
        assert listed.count(f"/task/{run.task_id}/change/") == 1
        assert run.problem in listed
