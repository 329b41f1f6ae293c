"""Scheduling: tests of a file or folder that share a fixture run in the same process of xdist; all
others wherever there is room."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

OF_FILE, OF_FOLDER = 'scope="module"', 'scope="package"'


class Scheduler(LoadScopeScheduling):  # type: ignore[misc]
    """xdist's own groups do nothing with pytest 9.2: it no longer reads the ids they change."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._root = config.rootpath

    def _split_scope(self, nodeid: str) -> str:
        return group(self._root, nodeid)


def group(root: Path, nodeid: str) -> str:
    """The name of the group of a test: its folder, its file or itself."""
    file = nodeid.split("::", 1)[0]
    folder = file.rpartition("/")[0]
    beside = _source(root / folder / "conftest.py")
    if OF_FOLDER in beside:
        return folder
    return file if OF_FILE in beside + _source(root / file) else nodeid


@cache
def _source(file: Path) -> str:
    return file.read_text() if file.exists() else ""
