"""The choice of the browser, its limits, and the names of its failures."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from crawlframe.conf import Settings
from crawlframe.errors import (
    BadUrl,
    BrowserLost,
    ConfigError,
    ConnectError,
    ConnectionLost,
    DownloadRefused,
    FetchError,
    FetchTimeout,
    NoBrowser,
    PageCrashed,
    TlsError,
)
from crawlframe.fetch.browser import chromium, failures, settings
from crawlframe.fetch.browser.settings import find_browser, variables_of
from tests.fetch.conftest import LOOPBACK


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "installed", lambda: True)


def program(directory: Path, name: str) -> str:
    path = directory / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_any_chromium_on_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoBrowser, match="CRAWLFRAME_BROWSER"):
        find_browser(Settings())
    chrome = program(tmp_path, "google-chrome")
    assert find_browser(Settings()) == chrome
    chromium = program(tmp_path, "chromium")
    assert find_browser(Settings()) == chromium
    assert find_browser(Settings(browser="google-chrome")) == chrome
    with pytest.raises(NoBrowser, match="'firefox' is no program"):
        find_browser(Settings(browser="firefox"))


def test_without_playwright_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "installed", lambda: False)
    with pytest.raises(NoBrowser, match=r"crawlframe\[browser\]"):
        find_browser(Settings())


def test_a_node_may_have_none() -> None:
    with pytest.raises(NoBrowser, match="CRAWLFRAME_BROWSER_PAGES is 0"):
        find_browser(Settings(browser_pages=0))
    with pytest.raises(ConfigError, match="browser_pages is -1"):
        Settings.from_env({"CRAWLFRAME_BROWSER_PAGES": "-1"})


def test_settings_of_the_browser_come_from_the_node() -> None:
    node = Settings(allow_private=LOOPBACK, browser="x", browser_pages=3, browser_memory=500)
    given = Settings.from_env(variables_of(node))
    assert given.allow_private == LOOPBACK
    assert (given.browser, given.browser_pages, given.browser_memory) == ("x", 3, 500)


@pytest.mark.parametrize(("limit", "share"), [("1000000", 600_000), ("max", None), (None, None)])
def test_the_memory_fits_into_the_container(
    tmp_path: Path, limit: str | None, share: int | None
) -> None:
    file = tmp_path / "memory.max"
    if limit is not None:
        file.write_text(f"{limit}\n")
    machine = int(chromium.SHARE * psutil.virtual_memory().total)
    assert chromium.allowed_memory(1 << 60, file) == (share or machine)
    assert chromium.allowed_memory(1000, file) == 1000


def test_the_memory_of_a_process() -> None:
    own = psutil.Process()
    size = chromium.proportional([own])
    assert 1 << 20 < size <= own.memory_info().rss * 2
    assert chromium.proportional([own, own]) >= 1.5 * size
    assert own in chromium.family(own)
    assert os.getpid() == own.pid


class Open:
    """A page that is there."""

    def is_closed(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Page.goto: net::ERR_CERT_AUTHORITY_INVALID at https://x/", TlsError),
        ("Page.goto: net::ERR_SSL_PROTOCOL_ERROR at https://x/", TlsError),
        ("Page.goto: net::ERR_TUNNEL_CONNECTION_FAILED at https://x/", ConnectError),
        ("Page.goto: net::ERR_CONNECTION_RESET at http://x/", ConnectionLost),
        ("Page.goto: net::ERR_EMPTY_RESPONSE at http://x/", ConnectionLost),
        ("Page.goto: net::ERR_TIMED_OUT at http://x/", FetchTimeout),
        ("Page.goto: net::ERR_UNSAFE_PORT at http://x:1/", BadUrl),
        ("Page.goto: net::ERR_CONNECTION_REFUSED at http://x/crashed", ConnectError),
        ("Page.goto: Download is starting", DownloadRefused),
        ("Page.goto: something new\nCall log: ...", PageCrashed),
    ],
)
def test_failures_have_names(text: str, kind: type[FetchError]) -> None:
    api = pytest.importorskip("playwright.async_api", reason="no playwright here")
    error = failures.name(Open(), api.Error(text), "http://x/")  # type: ignore[arg-type]
    assert type(error) is kind
    assert "http://x/" in str(error)
    assert "Call log" not in str(error)


def test_failures_of_the_host_are_made_again() -> None:
    assert type(failures.made("PageCrashed", "x")) is PageCrashed
    for other in ("SystemExit", "ConfigError", "did_you_mean", "RobotsUnread"):
        assert type(failures.made(other, "x")) is BrowserLost
