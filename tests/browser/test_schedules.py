"""Schedules in a browser: started once for each due time, whichever node leads."""

from __future__ import annotations

import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from playwright.sync_api import Page, expect

from crawlservice.models import Schedule
from tests.conftest import Running
from tests.process.conftest import Look, OddWeb, wait_for
from tests.servers import served

# The pages are the same on both databases.
pytestmark = [pytest.mark.process, pytest.mark.parametrize("database", ["sqlite"], indirect=True)]

EVERY = 2  # seconds
DUE = "%Y-%m-%d %H:%M:%S"


@pytest.fixture
def two_nodes(
    odd_env: dict[str, str], start_manage: Callable[..., Running], look: Look, web: OddWeb
) -> Iterator[tuple[str, Running]]:
    """A schedule with an interval of a few seconds, two nodes, and the web: its address, and the
    node that leads."""
    made = Schedule.objects.create(
        name="often", spider="odd", arguments={"url": web.url}, every=EVERY, overlap="allow"
    )
    leader = start_manage("runcrawler", "--workers", 1, "--node", "alpha")
    wait_for(lambda: made.runs.exists())
    start_manage("runcrawler", "--workers", 1, "--node", "beta")
    with served(odd_env) as (address, _):
        wait_for(lambda: len(look.frontier.leases.nodes()) == 2)
        yield address, leader


def due_times(page: Page) -> list[datetime]:
    """The due times in the list of runs, oldest first; all of them were submitted."""
    page.reload()
    rows = page.locator("#result_list tbody tr")
    outcomes = rows.locator(".field-shown_outcome").all_inner_texts()
    assert {text.strip().lower() for text in outcomes} == {"submitted"}
    times = [re.findall(r"\d{4}-\d\d-\d\d [\d:]{8}", text)[0] for text in rows.all_inner_texts()]
    return sorted(datetime.strptime(text, DUE) for text in times)


def runs_after(page: Page, moment: datetime, count: int) -> list[datetime]:
    """The due times after a moment, once there are ``count`` of them."""
    deadline = time.monotonic() + 60
    while True:
        times = due_times(page)
        if sum(due > moment for due in times) >= count:
            return times
        assert time.monotonic() < deadline, f"{times} went no further"
        page.wait_for_timeout(300)


def test_each_due_time_is_there_once_also_when_the_leader_is_killed(
    two_nodes: tuple[str, Running], open_page: Callable[[str], Page]
) -> None:
    address, leader = two_nodes
    page = open_page(f"{address}admin/crawlservice/run/")
    before = runs_after(page, due_times(page)[-1], 1)
    leader.process.send_signal(signal.SIGKILL)
    leader.process.wait()
    times = runs_after(page, before[-1] + timedelta(seconds=EVERY), 3)

    assert max(Counter(times).values()) == 1
    every = timedelta(seconds=EVERY)
    assert all((late - early) % every == timedelta() for early, late in pairwise(times))
    gaps = [late for early, late in pairwise(times) if late - early != every]
    for late in gaps:
        row = page.locator(f"#result_list tr:has-text('{late:{DUE}}')")
        expect(row).to_contain_text("also for those missed since")
    tasks = page.locator("#result_list .field-shown_task").all_inner_texts()
    assert len(set(tasks)) == len(tasks) == len(times)
    assert page.evaluate("window.violations") == []
