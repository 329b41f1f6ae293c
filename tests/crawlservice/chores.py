"""Shared functions of the tests of chores."""

from __future__ import annotations

from typing import TypeVar

from crawlservice.steward.steward import Steward

W = TypeVar("W")


def work_of(steward: Steward, name: str, kind: type[W]) -> W:
    """The work of a chore, by the name of the chore."""
    work = steward.job(name).work(steward.context)
    assert isinstance(work, kind)
    return work
