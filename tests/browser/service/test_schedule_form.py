"""A schedule in a browser: created with the form, which shows when it is due."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.process


def test_a_schedule_is_made_from_the_form(site: str, page: Page) -> None:
    page.goto(f"{site}admin/crawlservice/schedule/add/")
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
