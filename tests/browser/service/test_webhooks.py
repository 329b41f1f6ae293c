"""A webhook in a browser: added, tested, and followed in its deliveries."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import run_action, submit_watched
from tests.crawlservice.receiver import Receiver, verify
from tests.process.conftest import OddWeb

pytestmark = pytest.mark.process


def delivery(page: Page, site: str, event: str, state: str) -> Locator:
    """The row of an event in the list of deliveries, once it has this state."""
    row = page.locator(f"#result_list tbody tr:has-text('{event}:')")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        page.goto(f"{site}admin/crawlservice/delivery/")
        if row.count() and state in row.locator(".field-state").inner_text().lower():
            return row
        page.wait_for_timeout(300)
    raise AssertionError(f"{event} is not {state}: {row.all_inner_texts()}")


def test_a_webhook_is_added_tried_and_followed(
    site: str, page: Page, web: OddWeb, receiver: Receiver
) -> None:
    page.goto(f"{site}admin/crawlservice/webhook/add/")
    page.fill("[name=name]", "ours")
    page.fill("[name=url]", f"{receiver.url}in")
    page.click("[name=_save]")
    secret = page.locator("#secret").inner_text()
    assert len(secret) > 40
    page.click("text=Continue")
    expect(page.locator("[name=name]")).to_have_value("ours")
    assert secret not in page.content()

    page.goto(f"{site}admin/crawlservice/webhook/")
    run_action(page, "send_test")
    expect(page.locator("body")).to_contain_text("ours accepted the test")
    assert secret not in page.content()
    (told,) = receiver.wait(1)
    assert (told.path, told.content["kind"]) == ("/in", "test")
    assert verify(told, secret)

    task = submit_watched(page, site, web.url, pages=1)
    _, told = receiver.wait(2)
    assert told.content["task"]["id"] == task
    assert verify(told, secret)
    row = delivery(page, site, told.content["id"], "sent")
    expect(row).to_contain_text(f"{told.content['id']}: finished")

    receiver.answers["/in"] = 500
    submit_watched(page, site, web.url, pages=1)
    late = receiver.wait(3)[2].content["id"]
    row = delivery(page, site, late, "retrying")
    expect(row.locator(".field-problem")).to_have_text("it answered 500: <b>sorry</b>")
    page.goto(f"{site}admin/crawlservice/webhook/")
    expect(page.locator("#result_list")).to_contain_text("it answered 500: <b>sorry</b>")
    run_action(page, "send_test")
    expect(page.locator("body")).to_contain_text("ours: it answered 500: <b>sorry</b>")

    receiver.answers.clear()
    delivery(page, site, late, "retrying")
    run_action(page, "send_again", f"{late}:")
    expect(page.locator("body")).to_contain_text("to be sent again: 1")
    delivery(page, site, late, "sent")
    assert page.evaluate("window.violations") == []
