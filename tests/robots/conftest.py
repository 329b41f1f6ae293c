"""Fixtures of the tests of robots.txt: the server of the tests of fetching."""

from __future__ import annotations

from tests.fetch.conftest import _server, site

__all__ = ("_server", "site")
