"""Chromium: one browser with Playwright's driver, from its start to the end of all its
processes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil
from playwright.async_api import Browser, BrowserContext, Error, Playwright, async_playwright

from crawlframe.errors import BrowserLost, NoBrowser
from crawlframe.fetch.browser.settings import is_root

START = 30.0  # seconds that a start may take
CLOSE_SECONDS = 5.0  # seconds for a browser to close, before it is killed
SCRIPT_MEMORY = 512  # MiB of the scripts of one renderer

FLAGS = (
    # All that leaves goes through the proxy of its context: also to loopback, and no UDP.
    "--proxy-bypass-list=<-loopback>",
    "--disable-quic",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    f"--js-flags=--max-old-space-size={SCRIPT_MEMORY}",
    "--disable-gpu",
)
# With this flag, a page may open windows unasked.
REFUSED_FLAGS = ["--disable-popup-blocking"]

log = logging.getLogger(__name__)
SHARE = 0.6  # of the memory of the machine, or of the container, that browsers have at most
CGROUP = Path("/sys/fs/cgroup/memory.max")


class Chromium:
    """``lost`` is set when it has ended, for whatever reason. ``born``: time.monotonic()."""

    def __init__(
        self,
        driver: Playwright,
        browser: Browser,
        sink: socket.socket,
        before: set[int],
        files: Path,
    ) -> None:
        self.born = time.monotonic()
        self.served = 0  # pages
        self.lost = asyncio.Event()
        self._driver = driver
        self._browser = browser
        self._sink = sink
        self._files = files
        self._processes = [one for one in _children() if one.pid not in before]
        browser.on("disconnected", lambda _: self.lost.set())

    @classmethod
    async def start(cls, program: str, directory: Path) -> Chromium:
        """Starts a browser, whose files are below ``directory`` until it is closed. Raises
        BrowserLost if it does not start, and NoBrowser if it cannot."""
        before = {process.pid for process in _children()}
        # An unserved port of ours: requests outside of a context lead nowhere.
        sink = socket.socket()
        sink.bind(("127.0.0.1", 0))
        driver = None
        directory.mkdir(exist_ok=True)
        files = Path(tempfile.mkdtemp(prefix="", dir=directory))
        os.environ["TMPDIR"] = str(files)  # for driver and browser, which leave their files there
        try:
            async with asyncio.timeout(START):
                driver = await async_playwright().start()
                browser = await cls._launch(driver, program, sink.getsockname()[1])
                return cls(driver, browser, sink, before, files)
        except (Error, TimeoutError, OSError) as error:
            sink.close()
            await _end(driver, [one for one in _children() if one.pid not in before])
            shutil.rmtree(files, ignore_errors=True)
            why = str(error).strip().split("\n", 1)[0] or "it takes too long"
            kind = NoBrowser if isinstance(error, PermissionError) else BrowserLost
            raise kind(f"{program} does not start: {why}") from None

    @staticmethod
    async def _launch(driver: Playwright, program: str, port: int) -> Browser:
        options: dict[str, Any] = {
            "executable_path": program,
            "args": [*FLAGS],
            "ignore_default_args": REFUSED_FLAGS,
            "proxy": {"server": f"http://127.0.0.1:{port}"},
            "handle_sigint": False,
            "handle_sigterm": False,
            "handle_sighup": False,
        }
        if is_root():  # it refuses to start with its sandbox
            return await driver.chromium.launch(**options)
        try:
            return await driver.chromium.launch(**options, chromium_sandbox=True)
        except Error as error:
            if "sandbox" not in str(error).lower():
                raise
            log.warning(
                "Chromium runs without its sandbox, because this system does not allow it: "
                "see unprivileged user namespaces"
            )
            return await driver.chromium.launch(**options)

    @property
    def ended(self) -> bool:
        """Whether it has ended, or its driver has, which is not reported."""
        if not self.lost.is_set() and not all(map(_runs, self._processes)):
            self.lost.set()
        return self.lost.is_set()

    async def new_context(self, **options: Any) -> BrowserContext:
        """Raises playwright's Error."""
        return await self._browser.new_context(**options)

    @property
    def version(self) -> str:
        return self._browser.version

    @property
    def memory(self) -> int:
        """Bytes of all its processes, including the driver."""
        return proportional(one for process in self._processes for one in family(process))

    async def close(self) -> None:
        """Ends all its processes, by force if they do not end."""
        self.lost.set()
        processes = [one for process in self._processes for one in family(process)]
        with contextlib.suppress(Error, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._browser.close()
        await _end(self._driver, processes)
        self._sink.close()
        await asyncio.to_thread(shutil.rmtree, self._files, ignore_errors=True)


async def _end(driver: Playwright | None, processes: list[psutil.Process]) -> None:
    if driver is not None:
        with contextlib.suppress(Error, TimeoutError, OSError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await driver.stop()
    for process in processes:
        for one in family(process):
            with contextlib.suppress(psutil.Error):
                one.kill()  # psutil never kills a later process with the same pid


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _children() -> list[psutil.Process]:
    try:
        return psutil.Process().children()
    except psutil.Error:
        return []


def proportional(processes: Iterable[psutil.Process]) -> int:
    """Bytes of these processes together (PSS): shared memory counts once. Where the system does not
    say, their resident bytes."""
    return sum(map(_memory_of, processes))


def family(process: psutil.Process) -> list[psutil.Process]:
    """A process and its descendants; none if it has ended."""
    try:
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []


def allowed_memory(wanted: int, limit: Path = CGROUP) -> int:
    """The part of ``wanted`` bytes that fits into this machine and container."""
    most = psutil.virtual_memory().total
    try:
        most = min(most, int(limit.read_text()))
    except (OSError, ValueError):  # no such group, or "max"
        pass
    return min(wanted, int(SHARE * most))


def _memory_of(process: psutil.Process) -> int:
    try:
        for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    except (OSError, ValueError, IndexError):
        pass
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0
