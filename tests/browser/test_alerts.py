"""The page "What needs me" in a browser: it is live, and an alert is acknowledged on a phone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Page, expect

from crawlframe.frontier import Frontier
from crawlservice.alerts import state
from crawlservice.alerts.condition import Alarm
from crawlservice.connections import clock
from crawlservice.models import Installation
from tests.servers import served

if TYPE_CHECKING:
    from tests.conftest import NewDatabase

# The pages are the same on both databases.
pytestmark = [pytest.mark.process, pytest.mark.parametrize("database", ["sqlite"], indirect=True)]


@pytest.fixture
def address(
    service: Frontier, manage_env: dict[str, str], new_database: NewDatabase
) -> Iterator[str]:
    """The address of the web, in whose database two tasks have failed and all is else well."""
    Installation.objects.get_or_create(pk=1)
    now = clock.now()
    findings = [
        Alarm("task_failed", name, now, {"spider": name, "task": 7, "reason": "no <b>items</b>"})
        for name in ("shop", "news")
    ]
    state.record({"task_failed": findings}, {}, now)
    state.mark_checked(now)
    with served(manage_env) as (place, _):
        yield place


def test_an_alert_is_acknowledged_on_a_phone(
    address: str, open_page: Callable[[str], Page]
) -> None:
    page = open_page(f"{address}admin/")
    page.set_viewport_size({"width": 390, "height": 844})
    needs = page.locator("#cf-needs")
    expect(page.locator("#content h2, #cf-needs h2").first).to_have_text("What needs me")
    expect(needs.locator(".cf-need-what")).to_have_count(2)
    expect(needs).to_contain_text("shop #7 failed: no <b>items</b>")
    with page.expect_response("**/overview/"):
        pass  # it is polled, and the message is shown
    expect(needs.locator(".cf-need-what")).to_have_count(2)
    wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not page.evaluate(wide)

    needs.locator("li:has-text('shop') button").click()
    expect(needs.locator(".cf-need-what")).to_have_count(1)
    expect(needs).to_contain_text("1 acknowledged")
    needs.get_by_text("1 acknowledged").click()
    expect(page.locator("#result_list")).to_contain_text("shop #7 failed")
    page.locator("#result_list a.cf-link").first.click()
    page.wait_for_url("**/crawlservice/task/7/change/")
    assert page.evaluate("window.violations") == []
