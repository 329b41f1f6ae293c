"""A webhook in a browser: added, tested, and followed in its deliveries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import origin, run_action, submit_watched
from tests.crawlservice.receiver import Receiver, verify
from tests.process.conftest import OddWeb

# The pages are the same on both databases.
pytestmark = [pytest.mark.process, pytest.mark.parametrize("database", ["sqlite"], indirect=True)]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


def delivery(page: Page, event: int, state: str) -> Locator:
    """The row of an event in the list of deliveries, once it has this state."""
    row = page.locator(f"#result_list tbody tr:has-text('evt_{event}:')")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        page.goto(f"{origin(page)}/admin/crawlservice/delivery/")
        if row.count() and state in row.locator(".field-state").inner_text().lower():
            return row
        page.wait_for_timeout(300)
    raise AssertionError(f"evt_{event} is not {state}: {row.all_inner_texts()}")


def test_a_webhook_is_added_tried_and_followed(
    start: Callable[[dict[str, str]], str],
    manage_env: dict[str, str],
    open_page: Callable[[str], Page],
    web: OddWeb,
    receiver: Receiver,
) -> None:
    manage_env["CRAWLFRAME_SPIDERS"] = "tests.browser.spiders"
    page = open_page(f"{start(manage_env)}admin/crawlservice/webhook/add/")
    page.fill("[name=name]", "ours")
    page.fill("[name=url]", f"{receiver.url}in")
    page.click("[name=_save]")
    secret = page.locator("#secret").inner_text()
    assert len(secret) > 40
    page.click("text=Continue to the webhook")
    expect(page.locator("[name=name]")).to_have_value("ours")
    assert secret not in page.content()

    page.goto(f"{origin(page)}/admin/crawlservice/webhook/")
    run_action(page, "send_test")
    expect(page.locator("body")).to_contain_text("ours accepted the test")
    assert secret not in page.content()
    (told,) = receiver.wait(1)
    assert (told.path, told.content["kind"]) == ("/in", "test")
    assert verify(told, secret)

    submit_watched(page, web.url, pages=1)
    row = delivery(page, 1, "arrived")
    expect(row).to_contain_text("evt_1: finished")
    _, told = receiver.wait(2)
    assert told.content["task"]["id"] == 1
    assert verify(told, secret)

    receiver.answers["/in"] = 500
    submit_watched(page, web.url, pages=1)
    row = delivery(page, 2, "retrying")
    expect(row.locator(".field-problem")).to_have_text("it answered 500: <b>sorry</b>")
    page.goto(f"{origin(page)}/admin/crawlservice/webhook/")
    expect(page.locator("#result_list")).to_contain_text("it answered 500: <b>sorry</b>")
    run_action(page, "send_test")
    expect(page.locator("body")).to_contain_text("ours: it answered 500: <b>sorry</b>")

    receiver.answers.clear()
    delivery(page, 2, "retrying")
    run_action(page, "send_again", "evt_2:")
    expect(page.locator("body")).to_contain_text("to be sent again: 1")
    delivery(page, 2, "arrived")
    assert page.evaluate("window.violations") == []
