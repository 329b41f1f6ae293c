"""Effects of the theme's Alpine.js code, under a policy against the evaluation of text."""

from __future__ import annotations

import pytest
from playwright.sync_api import ConsoleMessage, Page, expect

pytestmark = pytest.mark.process
SHOWN = "Alpine.$data(document.body).sidebarDesktopOpen"


def test_the_theme_works_without_evaluating_text(site: str, page: Page) -> None:
    said: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        if message.type in ("warning", "error"):
            said.append(message.text)

    page.on("console", hear)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.set_viewport_size({"width": 1400, "height": 900})
    answer = page.goto(f"{site}admin/crawlservice/task/")
    assert answer is not None
    policy = answer.headers["content-security-policy"]
    assert "unsafe-eval" not in policy
    assert "script-src" in policy
    # The navigation is hidden, and stays so on the next page.
    button = page.locator("[x-on\\:click*='sidebarDesktopOpen =']")
    assert page.evaluate(SHOWN) is True
    button.click()
    assert page.evaluate("localStorage.sidebarDesktopOpen") == "0"
    page.reload()
    assert page.evaluate(SHOWN) is False
    button.click()
    assert page.evaluate(SHOWN) is True
    # The menu of the user; light and dark.
    menu = page.locator("[x-show=openUserLinks]")
    expect(menu).to_be_hidden()
    page.locator("[x-on\\:click='openUserLinks = !openUserLinks']").click()
    expect(menu).to_be_visible()
    for look, count in (("dark", 1), ("light", 0)):
        page.locator(f"[x-on\\:click=\"switchTheme('{look}')\"]").click()
        expect(page.locator("html.dark")).to_have_count(count)
    page.mouse.click(700, 700)
    expect(menu).to_be_hidden()
    # The shortcut of the search, and forms.
    page.keyboard.press("/")
    expect(page.locator("[x-ref=searchInput]")).to_be_focused()
    for place in ("submit/?spider=watched", "crawlservice/schedule/add/?spider=watched", ""):
        page.goto(f"{site}admin/{place}")
    assert page.evaluate("window.violations") == []
    assert said == []
