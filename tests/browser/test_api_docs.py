"""The API's pages in a real browser: they work under our Content-Security-Policy, and what they
send is authorised."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connections
from playwright.sync_api import Page, sync_playwright

from crawlservice.models import Task, Token
from tests.conftest import Running

pytestmark = pytest.mark.process

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", event =>
    window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


@pytest.fixture
def site(start_manage: Callable[..., Running], orm: str) -> str:
    """The address of a running service with the user boss."""
    running = start_manage("up", "--bind", "127.0.0.1:0", "--workers", "1", "--no-reload")
    running.wait_for("Ctrl-C stops everything.", timeout=60)
    User.objects.create_superuser("boss", password="geheim-4711")
    found = re.search(r"http://\S+/", running.output)
    assert found
    return found[0]


@pytest.fixture
def page(site: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium")
    # Playwright has a running event loop in this thread, and Django's models are used inside it,
    # where they would have other connections, those of the previous test.
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    with sync_playwright() as play:
        connections["default"] = connections.create_connection("default")
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(60_000)
        page.add_init_script(VIOLATIONS)
        yield page
        browser.close()


def log_in(page: Page) -> None:
    page.fill("input[name=username]", "boss")
    page.fill("input[name=password]", "geheim-4711")
    page.click("button[type=submit]")


def violations(page: Page) -> Any:
    return page.evaluate("window.violations")


# The pages are the same on every database.
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_the_docs_try_things_out(site: str, page: Page) -> None:
    Task.objects.create(spider="shop", seeds=b"", arguments={"city": "<b>Ulm</b>"})
    page.goto(f"{site}api/v1/docs")
    log_in(page)
    page.wait_for_url("**/api/v1/docs")
    for operation, status in (
        ("list_tasks", "200"),
        ("pause_task", "20"),
    ):  # 202 until Redis knows it
        block = page.locator(f"[id$={operation}]")
        block.locator(".opblock-summary").click()
        block.locator("button.try-out__btn").click()
        if operation == "pause_task":
            block.locator("input[placeholder=task_id]").fill("1")
        block.locator("button.execute").click()
        answer = block.locator(".live-responses-table tbody .response-col_status")
        answer.wait_for()
        assert answer.inner_text().strip().startswith(status)
    assert Task.objects.get().state == "paused"  # with the login and its CSRF token
    assert violations(page) == []


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_token_is_made_and_shown_once(site: str, page: Page) -> None:
    page.goto(f"{site}admin/crawlservice/token/add/")
    log_in(page)
    page.fill("input[name=name]", "nightly <script>alert(1)</script>")
    page.check("input[name=scope][value=submit]")
    page.click("button[name=_save]")
    shown = page.locator("#secret").inner_text().strip()
    assert re.fullmatch(r"cf_[\w-]{43}", shown)
    assert violations(page) == []
    assert Token.objects.get().scopes == ["submit"]
    page.goto(f"{site}admin/crawlservice/token/")
    assert shown not in page.content()
    assert shown[:9] in page.content()
