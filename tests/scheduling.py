"""Scheduling: the process of xdist for each test, and the order. The tests of a file run in the
same process, as do tests of a folder that share a fixture; each test of nodes runs alone, and
first, as do browsers: they take longest. Large files come before small ones, so that all processes
end together."""

from __future__ import annotations

import os
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from tests import quick

MEMORY = 1 << 30  # bytes for a process, with the servers of its tests
OF_FILE, OF_FOLDER = 'scope="module"', 'scope="package"'
NODES = "tests/process/"
# Folders of few tests that each take long, in their order.
LONG = (NODES, "tests/morning/", "tests/browser/", "tests/scrapy_projects/")


class Scheduler(LoadScopeScheduling):  # type: ignore[misc]
    """xdist's own groups do nothing with pytest 9.2: it no longer reads the ids they change."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        config.option.loadscopereorder = False  # ``sort`` decides the order
        super().__init__(config, log)
        self._root = config.rootpath

    def _split_scope(self, nodeid: str) -> str:
        return group(self._root, nodeid)


def processes(config: pytest.Config) -> int:
    """The number of processes of ``-n auto``: more than processors, for most tests wait. Tests of
    nodes wait for two thirds of their time."""
    processors = len(os.sched_getaffinity(0))
    if quick.only(config):
        return processors + 1
    return max(2, min(2 * processors + 1, psutil.virtual_memory().available // MEMORY))


def sort(root: Path, items: list[pytest.Item]) -> None:
    """Puts the groups that take longest first."""
    groups = {item: group(root, item.nodeid) for item in items}
    sizes = Counter(groups.values())

    def key(item: pytest.Item) -> tuple[int, int, str]:
        name = groups[item]
        place = (at for at, folder in enumerate(LONG) if name.startswith(folder))
        return next(place, len(LONG)), -sizes[name], name

    items.sort(key=key)


def group(root: Path, nodeid: str) -> str:
    """The name of the group of a test: its folder, its file or itself."""
    file = nodeid.split("::", 1)[0]
    folder = file.rpartition("/")[0]
    beside = _source(root / folder / "conftest.py")
    if OF_FOLDER in beside:
        return folder
    alone = file.startswith(NODES) and OF_FILE not in beside + _source(root / file)
    return nodeid if alone else file


@cache
def _source(file: Path) -> str:
    return file.read_text() if file.exists() else ""
