"""Dead letters in a browser: selected, run again, and gone when they succeed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import origin, run_action, submit_watched
from tests.process.conftest import OddWeb

# The pages are the same on both databases.
pytestmark = [pytest.mark.process, pytest.mark.parametrize("database", ["sqlite"], indirect=True)]


def test_one_of_the_dead_letters_is_run_again(
    start: Callable[[dict[str, str]], str],
    manage_env: dict[str, str],
    open_page: Callable[[str], Page],
    web: OddWeb,
) -> None:
    web.statuses = {"/1": 404, "/3": 404}
    manage_env["CRAWLFRAME_SPIDERS"] = "tests.browser.spiders"
    page = open_page(f"{start(manage_env)}admin/")
    submit_watched(page, web.url, pages=5)

    page.click("nav a:has-text('Dead letters'), #nav-sidebar a:has-text('Dead letters')")
    rows = page.locator("#result_list tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.filter(has_text="http_404")).to_have_count(2)
    dead_letters = page.url
    web.statuses = {"/3": 404}
    run_action(page, "retry", f"{web.url}1")
    expect(page.locator("body")).to_contain_text("Task 1 runs again, with 1 failed request")

    page.goto(f"{origin(page)}/admin/crawlservice/task/1/change/")
    state = page.locator("#cf-now .cf-badge").first
    expect(state).to_have_text("finished with errors")
    expect(page.locator(".cf-tiles div:has(dt:text-is('Done')) dd")).to_have_text("5")
    expect(page.locator(".cf-tiles div:has(dt:text-is('Errors')) dd")).to_have_text("1")
    assert (web.hits["/0"], web.hits["/1"], web.hits["/3"]) == (1, 2, 1)
    page.goto(dead_letters)
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text(f"{web.url}3")
    assert page.evaluate("window.violations") == []
