"""Shared functions of the tests of chores, and of work that several processes do at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import connection

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


def at_once(*works: Callable[[], W]) -> list[W]:
    """Calls them at the same moment, each in a thread with a database connection of its own.
    Returns their results, or raises the error of the first that failed."""
    begin = threading.Barrier(len(works))

    def one(work: Callable[[], W]) -> W:
        try:
            connection.ensure_connection()
            begin.wait(60)
            return work()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(works)) as pool:
        return [future.result() for future in [pool.submit(one, work) for work in works]]
