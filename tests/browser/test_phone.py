"""Lists on a phone, where each cell has its label."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from crawlservice.models import Host

# The pages are the same on both databases.
pytestmark = [pytest.mark.process, pytest.mark.parametrize("database", ["sqlite"], indirect=True)]

SHOWN = """() => [...document.querySelectorAll('#result_list [data-label]')].map(cell =>
    [cell.dataset.label.toLowerCase(), getComputedStyle(cell, '::before').textTransform])"""


def test_the_name_of_a_file_is_not_capitalized(
    start: Callable[[dict[str, str]], str],
    manage_env: dict[str, str],
    open_page: Callable[[str], Page],
) -> None:
    Host.objects.create(name="shop.example")
    page = open_page(f"{start(manage_env)}admin/crawlservice/host/")
    page.set_viewport_size({"width": 390, "height": 800})
    shown = dict(page.evaluate(SHOWN))
    assert shown["robots.txt"] == "none"
    assert shown["latency"] == "capitalize"
