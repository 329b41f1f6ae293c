"""The settings of a browser host, and the directory that has its socket and the files of its
browsers."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

from crawlframe.conf import Settings
from crawlframe.errors import NoBrowser

PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
INSTALL = "install crawlframe[browser]"
PREFIX = "crawlframe-browser-"
SOCKET = "host.sock"
FILES = "t"  # the directory of the browsers' files
MAX_NAME = 30  # bytes of the name of a directory for temporary files


def find_browser(settings: Settings) -> str:
    """The path of the browser. Raises NoBrowser."""
    if not settings.browser_pages:
        raise NoBrowser("CRAWLFRAME_BROWSER_PAGES is 0: this node has no browser")
    if not installed():
        raise NoBrowser(f'downloader = "browser" needs Playwright: {INSTALL}')
    if settings.browser:
        path = shutil.which(settings.browser)
        if path is None:
            raise NoBrowser(f"CRAWLFRAME_BROWSER={settings.browser!r} is no program")
        return path
    for name in PROGRAMS:
        if path := shutil.which(name):
            return path
    raise NoBrowser(
        "no Chromium was found; install one (on Debian: apt install chromium), or name it in "
        "CRAWLFRAME_BROWSER and restart the node"
    )


def variables_of(settings: Settings) -> dict[str, str]:
    """The settings that a browser host needs, as ``Settings.from_env`` reads them."""
    return {
        "CRAWLFRAME_BROWSER": settings.browser,
        "CRAWLFRAME_BROWSER_PAGES": str(settings.browser_pages),
        "CRAWLFRAME_BROWSER_MEMORY": str(settings.browser_memory),
        "CRAWLFRAME_ALLOW_PRIVATE": ",".join(map(str, settings.allow_private)),
        "CRAWLFRAME_RESOLVER": settings.resolver,
    }


def installed() -> bool:
    """Whether Playwright can be imported."""
    return importlib.util.find_spec("playwright") is not None


def is_root() -> bool:
    """Whether Chromium would refuse to start with its sandbox."""
    return os.geteuid() == 0


class HostDirectory:
    """A directory that only this user can enter. This process and its forks hold a lock of it, so
    directories of killed processes are known, and removed, when the next is made."""

    def __init__(self) -> None:
        top = _top()
        for path in top.glob(f"{PREFIX}*"):
            if (lock := _locked(path)) >= 0:
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)
        self._lock = -1
        while self._lock < 0:  # another process may remove it before it is locked
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=top))
            self._lock = _locked(self.path)
        self.socket = self.path / SOCKET

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _top() -> Path:
    """/tmp where the directory for temporary files has a long name: sockets allow 107 bytes, and
    Chromium makes one three levels below."""
    usual = tempfile.gettempdir()
    return Path(usual if len(os.fsencode(usual)) <= MAX_NAME else "/tmp")


def _locked(path: Path) -> int:
    """A descriptor that holds the lock of a directory of ours; -1 if it is in use, gone, or another
    user's."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return -1
    with contextlib.suppress(OSError):
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists():
                return lock
    os.close(lock)
    return -1
