"""A crawl in a browser: submitted with the form, watched without reloading, paused and resumed,
retried, exported; and a reload that was refused."""

from __future__ import annotations

import csv
import time
from pathlib import Path

import pytest
from playwright.sync_api import Page, Request, expect

from tests.browser.conftest import TIMEOUT_MS, number_of
from tests.process.conftest import OddWeb
from tests.process.reload_project import Project, shop

pytestmark = pytest.mark.process


def tile(page: Page, name: str) -> str:
    return page.locator(f".cf-tiles div:has(dt:text-is('{name}')) dd").inner_text()


def stay(page: Page) -> None:
    """Asserts that the page is not reloaded from here on."""
    page.evaluate("window.stays = true")


def stayed(page: Page) -> bool:
    return bool(page.evaluate("window.stays === true"))


def asked_within(page: Page, seconds: float) -> list[str]:
    """Requests of the page in that time; while it polls, it does so twice a second."""
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    page.on("request", note)
    page.wait_for_timeout(1000 * seconds)
    page.remove_listener("request", note)
    return asked


def wait(page: Page, condition: str) -> None:
    """Unlike wait_for_function, which the policy of the page forbids."""
    until = time.monotonic() + TIMEOUT_MS / 1000
    while not page.evaluate(condition):
        assert time.monotonic() < until, condition
        page.wait_for_timeout(100)


FINISHED = "Number(document.querySelector('[data-name=nf]').textContent.replace(',', ''))"


def test_a_crawl_is_submitted_watched_steered_and_exported(
    site: str, page: Page, web: OddWeb, tmp_path: Path
) -> None:
    web.latency = 0.2
    web.statuses = {"/3": 404, "/7": 404}
    page.goto(f"{site}admin/submit/")
    page.click("text=Numbered pages of a small site.")
    page.fill("input[name=argument-site]", web.url)
    page.fill("input[name=argument-pages]", "0")
    page.select_option("select[name=argument-kind]", "shop")
    page.click("#content form button[type=submit]")
    expect(page.locator(".errors:has([name=argument-pages])")).to_contain_text("at least 1")
    assert page.input_value("input[name=argument-site]") == web.url
    page.fill("input[name=argument-pages]", "80")
    page.click("#content form button[type=submit]")
    page.wait_for_url("**/task/*/change/")
    task = number_of(page)

    stay(page)
    wait(page, f"{FINISHED} > 3")
    seen = int(tile(page, "Done"))
    wait(page, f"{FINISHED} > {seen}")
    assert stayed(page)
    page.click(".cf-tabs a:has-text('Timeline')")
    wait(page, "Chart.getChart(document.querySelector('canvas')) !== undefined")
    page.click(".cf-tabs a:has-text('Overview')")

    page.click("#cf-pause")
    expect(page.locator("#cf-now .cf-badge").first).to_have_text("paused")
    stay(page)
    expect(page.locator(".cf-tiles div:has(dt:text-is('In progress')) dd")).to_have_text("0")
    paused = tile(page, "Done")
    hits = web.hits.total()
    for _ in range(2):
        with page.expect_response("**/now/?tab=change"):
            pass
    assert tile(page, "Done") == paused
    assert web.hits.total() == hits < 80
    assert stayed(page)

    page.click("#cf-resume")
    stay(page)
    expect(page.locator("#cf-now .cf-badge").first).to_have_text("finished with errors")
    assert tile(page, "Done") == "79"
    assert tile(page, "Errors") == "2"
    expect(page.locator("#cf-now")).to_contain_text("Retry failed")
    assert stayed(page)
    assert any(not asked_within(page, 1.5) for _ in range(5)), "it asks for ever"

    web.statuses.clear()
    page.click("#cf-retry")
    stay(page)
    expect(page.locator("#cf-now")).to_contain_text("Its failed requests were run again once.")
    expect(page.locator("#cf-now .cf-badge").first).to_have_text("finished")
    assert tile(page, "Done") == "81"
    assert tile(page, "Errors") == "0"

    page.click(".cf-tabs a:has-text('Items')")
    expect(page.locator("#cf-items tbody tr").first).to_contain_text("<b>=1+1</b>")
    with page.expect_download() as download:
        page.click("a[download]:has-text('csv')")
    assert download.value.suggested_filename == f"task-{task}.csv"
    path = tmp_path / "items.csv"
    download.value.save_as(path)
    with path.open(newline="") as file:
        items = [*csv.DictReader(file)]
    assert len({item["url"] for item in items}) == len(items) == 80
    assert items[0]["title"] == "<b>=1+1</b>"

    page.click(".cf-tabs a:has-text('Timeline')")
    verbs = page.locator("#cf-tab tr td:nth-child(2)").all_inner_texts()
    assert verbs == ["export", "finished", "retry", "resume", "pause", "submit"]
    assert page.evaluate("window.violations") == []


def test_a_refused_reload_is_shown_on_the_dashboard(
    site: str, page: Page, project: Project
) -> None:
    page.goto(f"{site}admin/")
    stay(page)
    nodes = page.locator("section:has(h2:text-is('Nodes')) tbody tr")
    expect(nodes).to_have_count(1)
    expect(nodes).to_contain_text("idle")
    project.write("shops/shop.py", shop("broken").replace("def parse", "dfe parse"))
    trouble = page.locator(".cf-trouble:has-text('SyntaxError')")
    expect(trouble).to_contain_text("shops/shop.py")
    expect(trouble).to_contain_text("dfe parse")
    expect(nodes).to_contain_text("abnormal")
    expect(nodes).to_contain_text("refused")
    project.write("shops/shop.py", shop("mended"))
    expect(trouble).to_have_count(0)
    expect(nodes).to_contain_text("idle")
    assert stayed(page)
    assert page.evaluate("window.violations") == []
