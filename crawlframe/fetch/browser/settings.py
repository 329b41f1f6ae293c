"""HostSettings: the part of a node's settings that its browser host needs, in a form that can be
passed to another program."""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import shutil

import msgspec

from crawlframe.conf import Network, Settings
from crawlframe.errors import NoBrowser

PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
INSTALL = "install crawlframe[browser]"


class HostSettings(msgspec.Struct, frozen=True):
    """``pages`` are rendered at a time, in at most ``memory`` MiB. ``program``: "" = any Chromium
    that is found."""

    program: str = ""
    pages: int = 8
    memory: int = 2048
    allow_private: tuple[str, ...] = ()
    resolver: str = ""

    @classmethod
    def of(cls, settings: Settings) -> HostSettings:
        return cls(
            settings.browser,
            settings.browser_pages,
            settings.browser_memory,
            tuple(map(str, settings.allow_private)),
            settings.resolver,
        )

    @property
    def networks(self) -> tuple[Network, ...]:
        return tuple(map(ipaddress.ip_network, self.allow_private))

    def find(self) -> str:
        """The path of the browser. Raises NoBrowser."""
        if not self.pages:
            raise NoBrowser("CRAWLFRAME_BROWSER_PAGES is 0: this node has no browser")
        if not installed():
            raise NoBrowser(f'downloader = "browser" needs Playwright: {INSTALL}')
        if self.program:
            path = shutil.which(self.program)
            if path is None:
                raise NoBrowser(f"CRAWLFRAME_BROWSER={self.program!r} is no program")
            return path
        for name in PROGRAMS:
            if path := shutil.which(name):
                return path
        raise NoBrowser(
            "no Chromium was found; install one (on Debian: apt install chromium), or name it in "
            "CRAWLFRAME_BROWSER and restart the node"
        )


def installed() -> bool:
    """Whether Playwright can be imported."""
    return importlib.util.find_spec("playwright") is not None


def is_root() -> bool:
    """Whether Chromium would refuse to start with its sandbox."""
    return os.geteuid() == 0
