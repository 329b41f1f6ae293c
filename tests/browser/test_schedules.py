"""Schedules in a browser: created with the form, and started once for each due time, whichever node
leads."""

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


def test_a_schedule_is_made_from_the_form(
    start: Callable[[dict[str, str]], str],
    manage_env: dict[str, str],
    open_page: Callable[[str], Page],
) -> None:
    manage_env["CRAWLFRAME_SPIDERS"] = "tests.browser.spiders"
    page = open_page(f"{start(manage_env)}admin/crawlservice/schedule/")
    page.goto(f"{page.url}add/")
    page.click("text=Numbered pages of a small site.")
    page.fill("[name=name]", "workdays")
    page.fill("[name=argument-pages]", "0")
    page.select_option("[name=argument-kind]", "shop")

    times = page.locator("#next-times li")
    page.fill("[name=cron]", "30 6 * * 1-5")
    expect(page.locator("#next-times")).to_contain_text("At 06:30, Monday through Friday")
    expect(times).to_have_count(5)
    page.fill("[name=timezone]", "Asia/Shanghai")
    page.locator("[name=timezone]").blur()
    expect(times.first).to_contain_text("06:30:00 CST")
    page.click("[name=_save]")

    expect(page.locator(".field-argument-pages")).to_contain_text("at least 1")
    expect(page.locator(".field-argument-site")).to_contain_text("required")
    assert page.input_value("[name=argument-kind]") == "shop"
    page.fill("[name=argument-pages]", "7")
    page.fill("[name=argument-site]", "https://example.com/?a=1&b=<2>")
    page.click("[name=_save]")

    row = page.locator("#result_list tbody tr")
    expect(row).to_contain_text("06:30:00 CST")
    row.locator("a:text-is('workdays')").click()
    expect(page.locator("[name=argument-site]")).to_have_value("https://example.com/?a=1&b=<2>")
    expect(page.locator("[name=argument-pages]")).to_have_value("7")
    expect(page.locator("[name=argument-kind]")).to_have_value("shop")
    expect(times).to_have_count(5)
    assert page.evaluate("window.violations") == []


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
