"""All pages of the admin: findings of axe-core, the fit on a phone and a small desktop, and use by
keyboard alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import number_of, submit_watched
from tests.process.conftest import OddWeb

pytestmark = [pytest.mark.process, pytest.mark.timeout(900)]

CHECK = """async dark => {
    document.documentElement.classList.toggle("dark", dark);
    const runOnly = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
    const found = await axe.run({runOnly, resultTypes: ["violations"], iframes: false});
    return found.violations.flatMap(
        rule => rule.nodes.map(node => `${rule.id}: ${node.html} ${node.failureSummary}`));
}"""
PLACES = """selector => [...document.querySelectorAll(selector)].map(link => link.href)"""
FIRST_OF_LIST = "#result_list tbody:first-of-type :is(th, td) > a[href*='/change/']"
BELOW = f"{FIRST_OF_LIST}, a[href$='/add/'], #content .cf-table tr:first-child a"
MORE_ROWS = """number => {
    const row = document.querySelector('#result_list tbody');
    const rows = document.querySelectorAll('#result_list tbody').length;
    for (let more = rows; more < number; more++) row.after(row.cloneNode(true));
}"""
TWO_MORE = """() => {
    const entry = document.querySelector('#nav-sidebar-apps li');
    for (const _ of [1, 2]) entry.after(entry.cloneNode(true));
}"""
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def every_page(page: Page, site: str) -> Iterator[str]:
    """Opens the entries of the menu, their tabs, and of each the form for a new row and the page of
    the first row."""
    page.goto(f"{site}admin/")
    waiting = [f"{site}admin/", *page.evaluate(PLACES, "#nav-sidebar-apps a")]
    waiting += [f"{site}admin/password_change/", f"{site}admin/submit/?spider=watched"]
    seen: set[str] = set()
    for _ in range(3):
        below: list[str] = []
        for place in waiting:
            kind = re.sub(r"\d+", "1", place.partition("?")[0])
            if not place.startswith(f"{site}admin/") or kind in seen or "/export/" in kind:
                continue
            seen.add(kind)
            page.goto(place)
            yield place
            below += page.evaluate(PLACES, f"#tabs-items a, .cf-tabs a, {BELOW}")
        waiting = below


def test_axe_finds_nothing_and_nothing_is_wider_than_a_phone(
    site: str, page: Page, web: OddWeb
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    web.statuses = {"/1": 410}
    submit_watched(page, site, web.url, pages=3)
    problems: list[str] = []
    visited = []
    for place in every_page(page, site):
        visited.append(place)
        page.evaluate(axe.axe_script)
        for width, dark in ((1280, True), (390, False)):
            page.set_viewport_size({"width": width, "height": 800})
            problems += [f"{place} {width} {found}" for found in page.evaluate(CHECK, dark)]
        if page.evaluate(SIDEWAYS) > 0:
            problems.append(f"{place} is wider than a phone")
    assert problems == []
    assert len(visited) > 40, visited
    tabs = {"items", "pages", "errors", "log", "timeline", "settings"}
    assert tabs <= {place.split("/")[-2] for place in visited}


def test_the_whole_menu_is_seen(site: str, page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(f"{site}admin/crawlservice/task/")
    page.evaluate(TWO_MORE)  # schedules and exports, which are not used here
    fits = "menu => menu.scrollHeight <= menu.clientHeight"
    assert page.locator("#nav-sidebar-apps .simplebar-content-wrapper").first.evaluate(fits)


def test_lists_say_why_a_task_waits(site: str, page: Page, web: OddWeb) -> None:
    web.latency = 0.5
    task = submit_watched(page, site, web.url, pages=50, ends=False)
    expect(page.locator("[data-name=nf]")).not_to_have_text("0")
    found: list[str] = []
    while not found:  # workers write their counts of a host every few seconds
        page.goto(f"{site}admin/crawlservice/host/?q={urlsplit(web.url).netloc}")
        found = page.evaluate(PLACES, FIRST_OF_LIST)
    page.goto(found[0].replace("change", "pause"))
    page.click("#content form button[type=submit]")
    page.wait_for_url("**/host/*/change/")
    page.goto(f"{site}admin/crawlservice/task/{task}/change/")
    expect(page.get_by_text("Nothing is fetched now")).to_be_visible()  # nor in flight
    page.set_viewport_size({"width": 390, "height": 844})
    for place in ("crawlservice/task/", "spiders/", "spiders/watched"):
        page.goto(f"{site}admin/{place}")
        expect(page.locator(".cf-why:has-text('paused')").first).to_be_visible()
    page.goto(f"{site}admin/crawlservice/task/")
    page.evaluate(MORE_ROWS, 42)
    assert page.evaluate("document.documentElement.scrollHeight") <= 4_200
    page.goto(f"{site}admin/crawlservice/task/{task}/change/")
    page.click("#cf-cancel")


def test_the_keyboard_is_enough_to_submit_find_pause_and_retry(
    site: str, page: Page, web: OddWeb
) -> None:
    def type_command(text: str) -> None:
        page.keyboard.press("Control+k")
        expect(page.locator("#search-input-command")).to_be_focused()
        page.keyboard.type(text)
        first = page.locator("#command-results-list a").first
        expect(first).to_be_visible()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")

    def press(selector: str) -> None:
        """Tabs to an element and presses it."""
        for _ in range(80):
            page.keyboard.press("Tab")
            if page.evaluate("s => document.activeElement?.matches(s)", selector):
                return page.keyboard.press("Enter")
        raise AssertionError(f"Tab does not reach {selector}")

    web.statuses, web.latency = {"/0": 410}, 15.0
    page.goto(f"{site}admin/")
    type_command("submit watched")
    page.wait_for_url("**/submit/?spider=watched")
    page.locator("[name=argument-site]").focus()
    page.keyboard.type(web.url)
    press("#content form button[type=submit]")
    page.wait_for_url("**/task/*/change/")
    task = number_of(page)
    type_command(f"pause {task}")
    expect(page.locator("#cf-pause")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#cf-now .cf-badge").first).to_contain_text("paused")
    press("#cf-resume")
    web.latency = 0.0
    expect(page.locator("#cf-now .cf-badge").first).to_contain_text("finished")
    web.statuses = {}
    type_command(f"retry {task}")
    expect(page.locator("#cf-retry")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("body")).to_contain_text(f"Task {task} runs again")
    type_command("tasks")
    page.wait_for_url("**/crawlservice/task/")
    assert page.evaluate("window.violations") == []
