"""Fixtures of the tests with a real browser: Debian's Chromium, and the fixtures of the service."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import User

from tests.crawlservice.conftest import join, published, service, shop
from tests.process.conftest import look, odd_env, web

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ("join", "look", "odd_env", "published", "service", "shop", "web")

TIMEOUT_MS = 60_000  # ms
BOSS, PASSWORD = "boss", "geheim-4711"
# Run before the scripts of a page. Polling every few seconds is made ten times as frequent.
BEFORE = """
window.violations = [];
const later = window.setTimeout;
window.setTimeout = (what, ms, ...rest) => later(what, ms >= 1000 ? ms / 10 : ms, ...rest);
document.addEventListener("securitypolicyviolation", event =>
    window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


@contextmanager
def chromium() -> Iterator[Browser]:
    engine = pytest.importorskip("playwright.sync_api", reason="no playwright here")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no Chromium here")
    engine.expect.set_options(timeout=TIMEOUT_MS)
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with engine.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=options)
        yield browser
        browser.close()


@pytest.fixture
def browser() -> Iterator[Browser]:
    """Request it after fixtures that use the database: while it is open, this thread cannot."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def boss(orm: str) -> User:
    """The user of ``open_page``."""
    return User.objects.create_superuser(BOSS, password=PASSWORD)


@pytest.fixture
def open_page(boss: User) -> Iterator[Callable[[str], Page]]:
    """Opens a page of the service in a browser, as boss. The models cannot be used from then on."""
    with ExitStack() as stack:

        def open_(address: str) -> Page:
            page = stack.enter_context(chromium()).new_page()
            page.set_default_timeout(TIMEOUT_MS)
            page.add_init_script(BEFORE)
            page.goto(address)
            page.fill("input[name=username]", BOSS)
            page.fill("input[name=password]", PASSWORD)
            page.click("button[type=submit]")
            page.wait_for_url(address)
            return page

        yield open_


def submit_watched(page: Page, site: str, argument: str, pages: int, *, ends: bool = True) -> int:
    """Submits the spider ``watched`` from its form; returns its number when it has ended, or at
    once."""
    page.goto(f"{site}admin/submit/?spider=watched")
    page.fill("[name=argument-site]", argument)
    page.fill("[name=argument-pages]", str(pages))
    page.click("#content form button[type=submit]")
    page.wait_for_url("**/task/*/change/")
    if ends:
        page.wait_for_selector("#cf-now .cf-badge:has-text('finished')")
    return number_of(page)


def number_of(page: Page) -> int:
    """The number of the task, or another row, whose page this is."""
    return int(page.url.split("/")[-3])


def run_action(page: Page, name: str, row: str = "") -> None:
    """Selects the row with this text, or the first, and runs an action of the list on it."""
    page.locator(f"#result_list tr:has-text('{row}') .action-select").first.check()
    page.select_option("select[name=action]", name)
    page.click("#changelist-actions button[type=submit]")
