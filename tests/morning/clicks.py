"""Clicks: finds each trouble from the dashboard in a browser, acts on it, and counts the clicks."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.morning.morning import CHANGED, PASSWORD, USER, Trouble
from tests.morning.shops import SHOPS, Shops

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

MOST = 3  # clicks from the dashboard


class Clicks:
    """``page`` is logged in. ``done``: by trouble, the clicks that it took."""

    def __init__(self, page: Page, address: str, shops: Shops) -> None:
        self.done: dict[str, int] = {}
        self._page, self._address, self._shops = page, address, shops
        self._count = 0

    def solve(self, trouble: Trouble) -> None:
        """Finds it on the dashboard and acts. Raises AssertionError if the page does not explain
        it."""
        acts: dict[str, Callable[[Trouble], None]] = {
            **{f"{name} changed": self._run_again for name in CHANGED},
            "a task is silent": self._cancel,
            "a host refuses": self._resume,
            "a node is gone": self._forget,
            "a schedule cannot start": self._correct,
        }
        page = self._page
        page.goto(f"{self._address}admin/")
        self._count = 0
        self._click(page.locator("#cf-needs .cf-need-what", has_text=trouble.sign))
        acts[trouble.name](trouble)
        self.done[trouble.name] = self._count

    def wait_until_well(self) -> None:
        """The dashboard says in the end that nothing is wrong."""
        from playwright.sync_api import expect

        self._page.goto(f"{self._address}admin/")
        expect(self._page.locator("#cf-needs .cf-well")).to_be_visible()

    def _click(self, what: Locator) -> None:
        self._count += 1
        what.click()

    def _type(self, field: Locator, text: str) -> None:
        self._count += 1  # into the field
        field.fill(text)

    def _sees(self, selector: str, text: str) -> None:
        from playwright.sync_api import expect

        expect(self._page.locator(selector).first).to_contain_text(text)

    # -- actions ----------------------------------------------------------------------------------

    def _run_again(self, trouble: Trouble) -> None:
        """The fix is live: the same task once more."""
        self._page.wait_for_url(f"**/task/{trouble.task}/change/")
        self._sees("#cf-quality", "price has a value in 0 % of the items.")
        self._click(self._page.get_by_role("link", name="Clone"))
        self._click(self._page.get_by_role("button", name="Submit"))
        self._page.wait_for_url(re.compile(rf"/task/(?!{trouble.task}/)\d+/change/"))
        self._page.wait_for_selector("#cf-now .cf-badge:text-is('finished')")

    def _cancel(self, trouble: Trouble) -> None:
        self._page.wait_for_url(f"**/task/{trouble.task}/change/")
        self._click(self._page.locator("#cf-cancel"))
        self._shops.release()
        self._page.wait_for_selector("#cf-now .cf-badge:text-is('cancelled')")

    def _resume(self, trouble: Trouble) -> None:
        """The site was asked, and lets us in again."""
        self._page.wait_for_url("**/host/*/change/")
        self._sees("#content", "it asked for a long wait")
        self._click(self._page.get_by_role("link", name="Resume"))
        self._click(self._page.get_by_role("button", name="Resume"))
        self._page.wait_for_url("**/host/*/change/")

    def _forget(self, trouble: Trouble) -> None:
        self._page.wait_for_url("**/generation/*/change/")
        self._sees("#content", "died or is cut off")
        self._click(self._page.locator("#cf-forget"))
        self._page.wait_for_url("**/generation/")

    def _correct(self, trouble: Trouble) -> None:
        self._page.wait_for_url("**/schedule/*/change/")
        self._sees("#content", "It cannot start")
        field = self._page.locator("[name=argument-site]")
        self._type(field, self._shops.url(SHOPS, "shop-20/"))
        self._click(self._page.get_by_role("button", name="Save and run now"))
        self._page.wait_for_url("**/schedule/**")
        self._sees("body", "task")


def log_in(page: Page, address: str) -> None:
    page.goto(f"{address}admin/")
    page.fill("[name=username]", USER)
    page.fill("[name=password]", PASSWORD)
    page.click("button[type=submit]")
    page.wait_for_url(f"{address}admin/")
