"""A browser host for the tests of one process, and sites for it to visit."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from crawlframe.conf import Settings
from crawlframe.fetch.browser.client import PROGRAM
from crawlframe.fetch.browser.settings import PROGRAMS, variables_of
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.journey.context import FetchContext
from crawlframe.node.master import offspring
from crawlframe.request.request import Request
from crawlframe.response.browser_response import RenderedResponse
from crawlframe.spider.setting_tables import BrowserSettings
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.spider import Spider
from tests.fetch.conftest import LOOPBACK, Site, _server, site

__all__ = ("Site", "_server", "site")

CHECKOUT = Path(__file__).parents[3]
LIMIT = 60.0  # seconds; a test that takes them fails
_TASKS = itertools.count(1000)
QUICK: dict[str, Any] = {"browser": BrowserSettings(settle=0.0), "robots": False}


@pytest.fixture(scope="session")
def program() -> str:
    """The path of any Chromium."""
    pytest.importorskip("playwright.async_api", reason="no playwright here")
    found = next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium here")
    return found


class Shop(Spider):
    name = "shop"


def of_task(number: int) -> Shop:
    """The spider of a task, which has a browser profile of its own."""
    spider = Shop()
    spider._task = number
    return spider


class Host:
    """A browser host with its keeper."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.socket = directory / "host.sock"
        given = Settings(**{"allow_private": LOOPBACK, "browser_pages": 4, **settings})
        variables = json.dumps(variables_of(given))
        self._process = subprocess.Popen(
            [sys.executable, "-m", PROGRAM, str(self.socket), variables],
            stdin=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        )
        until = time.monotonic() + LIMIT
        while not self.socket.exists() and time.monotonic() < until:
            time.sleep(0.02)

    @property
    def family(self) -> list[psutil.Process]:
        """The host, the driver of Playwright, and the browser with all its processes."""
        return offspring.of(self._process.pid)

    def named(self, word: str) -> list[psutil.Process]:
        """Processes with this word in their command line."""
        found = []
        for process in self.family:
            with contextlib.suppress(psutil.Error):
                if word in process.cmdline():
                    found.append(process)
        return found

    @property
    def chromium(self) -> psutil.Process:
        """The main process of the browser."""
        for process in self.family:
            with contextlib.suppress(psutil.Error):
                line = process.cmdline()
                if any("--remote-debugging-pipe" in word for word in line) and not any(
                    word.startswith("--type=") for word in line
                ):
                    return process
        raise AssertionError("no browser runs")

    def close(self) -> list[psutil.Process]:
        """Ends it. Returns the processes that outlive it."""
        family = self.family
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(LIMIT)
        _, alive = psutil.wait_procs(family, timeout=LIMIT)
        return alive

    def kill(self) -> list[psutil.Process]:
        """Kills its keeper. Returns the processes that outlive it."""
        family = self.family
        self._process.kill()
        self._process.wait(LIMIT)
        assert self._process.stdin is not None
        self._process.stdin.close()
        _, alive = psutil.wait_procs(family, timeout=LIMIT)
        return alive


@contextlib.contextmanager
def running(**settings: Any) -> Iterator[Host]:
    """A browser host with these settings of its node."""
    # The names of sockets must be short, and pytest's directories are not.
    with tempfile.TemporaryDirectory() as directory:
        host = Host(Path(directory), **settings)
        yield host
        assert not host.close()


@pytest.fixture(scope="session")
def host(program: str) -> Iterator[Host]:
    with running(browser=program) as host:
        yield host


@pytest.fixture(scope="module")
def single(program: str) -> Iterator[Host]:
    """A host that renders one page at a time."""
    with running(browser=program, browser_pages=1) as host:
        yield host


class Browser:
    """The browser downloader, as a worker has it; for a task of its own, unless a spider is
    given."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._spider = of_task(next(_TASKS))

    def run(self, job: Callable[[Downloader], Coroutine[Any, Any, Any]], **settings: Any) -> Any:
        async def main() -> Any:
            given = Settings(allow_private=LOOPBACK, **settings)
            downloader = Downloader(given, browser=self.host.socket)
            try:
                async with asyncio.timeout(LIMIT):
                    return await job(downloader)
            finally:
                await downloader.close()

        return asyncio.run(main())

    def fetch(
        self, request: Request | str, settings: dict[str, Any] | None = None, **more: Any
    ) -> RenderedResponse:
        """Fetches with the settings of a spider; ``more`` are arguments of the downloader."""
        asked = request if isinstance(request, Request) else Request(request, downloader="browser")
        more = {"spider": self._spider, **more}
        own = SpiderSettings(**{**QUICK, "timeout": 20.0, **(settings or {})})

        async def job(downloader: Downloader) -> Any:
            return await downloader.fetch(asked, own, FetchContext(**more))

        response = self.run(job)
        assert isinstance(response, RenderedResponse)
        return response


@pytest.fixture
def browser(host: Host) -> Browser:
    return Browser(host)


def html(site: Site, path: str, text: str, **headers: str) -> None:
    """Serves an HTML page."""
    site.answer(path, text.encode(), headers={"Content-Type": "text/html", **headers})


def paths(site: Site) -> list[str]:
    """The paths of the requests that the site received."""
    return [exchange.target for exchange in site.seen]
