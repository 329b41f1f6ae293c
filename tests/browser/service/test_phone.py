"""Lists on a phone, where each cell has its label."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import submit_watched
from tests.process.conftest import OddWeb

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

SHOWN = """() => [...document.querySelectorAll('#result_list [data-label]')].map(cell =>
    [cell.dataset.label.toLowerCase(), getComputedStyle(cell, '::before').textTransform])"""


def test_the_name_of_a_file_is_not_capitalized(site: str, page: Page, web: OddWeb) -> None:
    submit_watched(page, site, web.url, pages=1)
    page.goto(f"{site}admin/crawlservice/host/")
    page.set_viewport_size({"width": 390, "height": 800})
    shown = dict(page.evaluate(SHOWN))
    assert shown["robots.txt"] == "none"
    assert shown["latency"] == "capitalize"
