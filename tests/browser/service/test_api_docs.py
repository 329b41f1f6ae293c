"""The API's pages in a real browser, with our Content-Security-Policy and authorisation."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import submit_watched
from tests.process.conftest import OddWeb

pytestmark = pytest.mark.process


def test_the_docs_try_things_out(site: str, page: Page, web: OddWeb) -> None:
    web.latency = 1.0  # it does not end before it is paused
    task = submit_watched(page, site, f"{web.url}<b>Ulm</b>", pages=1000, ends=False)
    page.goto(f"{site}api/v1/docs")
    for operation, status in (("list_tasks", "200"), ("pause_task", "20")):
        block = page.locator(f"[id$={operation}]")
        block.locator(".opblock-summary").click()
        block.locator("button.try-out__btn").click()
        if operation == "pause_task":
            block.locator("input[placeholder=task_id]").fill(str(task))
        block.locator("button.execute").click()
        answer = block.locator(".live-responses-table tbody .response-col_status")
        answer.wait_for()
        assert answer.inner_text().strip().startswith(status)  # 202 until Redis knows it
    assert page.evaluate("window.violations") == []
    page.goto(f"{site}admin/crawlservice/task/{task}/change/")
    # With the login and its CSRF token.
    expect(page.locator("#cf-now .cf-badge").first).to_have_text("paused")


def test_a_token_is_made_and_shown_once(site: str, page: Page) -> None:
    page.goto(f"{site}admin/crawlservice/token/add/")
    page.fill("input[name=name]", "nightly <script>alert(1)</script>")
    page.check("input[name=scope][value=submit]")
    page.click("button[name=_save]")
    shown = page.locator("#secret").inner_text().strip()
    assert re.fullmatch(r"cf_[\w-]{43}", shown)
    assert page.evaluate("window.violations") == []
    page.goto(f"{site}admin/crawlservice/token/")
    assert shown not in page.content()
    row = page.locator(f"#result_list tbody tr:has-text('{shown[:9]}')")
    expect(row).to_have_count(1)
    expect(row.locator(".field-scope")).to_have_text("submit")
    assert page.evaluate("window.violations") == []
