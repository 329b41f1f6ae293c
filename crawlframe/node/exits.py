"""Exits: exit codes of a node's processes."""

from __future__ import annotations

import signal

HANDED_OVER = 3  # exit code of a master replaced by another; Django's reloader uses it too


def describe_exit(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:  # a real-time signal
        return f"signal {-code}"
