"""The bad morning in a browser: from a failed task to the cause, the headers, and the retry; and a
spider that is disabled."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import submit_watched
from tests.process.conftest import OddWeb

pytestmark = pytest.mark.process


def test_from_the_list_of_tasks_to_the_cause_and_the_retry(
    site: str, page: Page, web: OddWeb
) -> None:
    web.statuses = {"/1": 410, "/3": 410}
    tasks = [submit_watched(page, site, web.url, pages=4) for _ in range(2)]
    web.statuses = {}

    page.goto(f"{site}admin/crawlservice/task/?spider=watched")
    row = page.locator(f"#result_list tr:has(.field-id:has-text('{tasks[1]}'))").first
    expect(row.locator(".cf-badge")).to_have_text("finished with errors")

    page.click("#nav-sidebar-apps a:has-text('Errors')")
    page.click("a:has-text('410')")
    expect(page.locator(".cf-tiles dd").first).to_have_text("4")
    page.click("text=Show the request")
    expect(page.locator("#cf-sent")).to_contain_text("User-Agent")
    expect(page.locator("#cf-received")).to_contain_text("410")
    expect(page.locator("#cf-shell")).to_contain_text(f"fetch --shell {web.url}")
    page.go_back()
    page.click("text=Retry all of them")
    expect(page.locator("strong").nth(0)).to_have_text("4")
    page.click("#cf-retry-start button")
    expect(page.locator("#cf-now h2")).to_have_text("done")
    expect(page.locator("#cf-now")).to_contain_text("Requests that run again: 4 of 4")
    for task in tasks:
        page.goto(f"{site}admin/crawlservice/task/{task}/change/")
        expect(page.locator("#cf-now .cf-badge").first).to_have_text("finished")
    assert page.evaluate("window.violations") == []


def test_a_spider_is_disabled_and_enabled_on_its_page(site: str, page: Page, web: OddWeb) -> None:
    submit_watched(page, site, web.url, pages=2)
    page.goto(f"{site}admin/spiders/watched")
    expect(page.locator("figure canvas").first).to_be_visible()
    page.click("summary:has-text('Disable')")
    page.fill("#cf-disable [name=reason]", "the site asked us to stop")
    page.click("#cf-disable button")
    expect(page.locator(".cf-note.cf-bad")).to_contain_text("the site asked us to stop")
    page.goto(f"{site}admin/submit/?spider=watched")
    expect(page.locator("body")).to_contain_text("is disabled: the site asked us to stop")
    page.goto(f"{site}admin/spiders/watched")
    page.click("button:has-text('Enable')")
    expect(page.locator("a:has-text('Run now')")).to_be_visible()
    assert page.evaluate("window.violations") == []
