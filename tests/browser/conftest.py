"""Fixtures of the tests with a real browser: Debian's Chromium, and those of the service."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.crawlservice.conftest import join, published, service, shop

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ("join", "published", "service", "shop")


@pytest.fixture
def browser() -> Iterator[Browser]:
    """Ask for it after what uses the database: while it is there, this thread may not."""
    engine = pytest.importorskip("playwright.sync_api", reason="no playwright here")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no Chromium here")
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with engine.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=options)
        yield browser
        browser.close()
