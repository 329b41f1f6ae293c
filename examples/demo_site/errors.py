"""The errors of the demo site."""

from __future__ import annotations


class DemoSiteError(Exception):
    """The demo site cannot be served; the message names the cause and how to fix it."""
