"""Shared functions of the tests of chores."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from crawlservice.steward.steward import Steward

W = TypeVar("W")


def work_of(steward: Steward, name: str, kind: type[W]) -> W:
    """The work of a chore, by the name of the chore."""
    work = steward.job(name).work(steward.context)
    assert isinstance(work, kind)
    return work


def until(ready: Callable[[], bool], what: str = "it did not come") -> None:
    """Waits up to 30 s. ``what``: the message of the failure."""
    deadline = time.monotonic() + 30
    while not ready():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
