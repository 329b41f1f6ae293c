"""Dead letters in a browser: selected, run again, and gone when they succeed."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import run_action, submit_watched
from tests.process.conftest import OddWeb

pytestmark = pytest.mark.process


def test_one_of_the_dead_letters_is_run_again(site: str, page: Page, web: OddWeb) -> None:
    web.statuses = {"/1": 404, "/3": 404}
    task = submit_watched(page, site, web.url, pages=5)
    its_page = page.url

    page.click("#nav-sidebar-apps a:has-text('Pages')")
    page.click("#tabs-items a:has-text('Dead letters')")
    rows = page.locator(f"#result_list tbody tr:has-text('{web.url}')")
    expect(rows).to_have_count(2)
    expect(rows.filter(has_text="http_404")).to_have_count(2)
    dead_letters = page.url
    web.statuses = {"/3": 404}
    run_action(page, "retry", f"{web.url}1")
    expect(page.locator("body")).to_contain_text(f"Task {task} runs again, with 1 failed request")

    page.goto(its_page)
    state = page.locator("#cf-now .cf-badge").first
    expect(state).to_have_text("finished with errors")
    expect(page.locator(".cf-tiles div:has(dt:text-is('Done')) dd")).to_have_text("5")
    expect(page.locator(".cf-tiles div:has(dt:text-is('Errors')) dd")).to_have_text("1")
    assert (web.hits["/0"], web.hits["/1"], web.hits["/3"]) == (1, 2, 1)
    page.goto(dead_letters)
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text(f"{web.url}3")
    assert page.evaluate("window.violations") == []
