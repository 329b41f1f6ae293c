"""Scheduling: tests of a file that share a fixture run in the same process of xdist; all others
wherever there is room."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

SHARED = 'scope="module"'


class Scheduler(LoadScopeScheduling):  # type: ignore[misc]
    """xdist's own groups do nothing with pytest 9.2: it no longer reads the ids they change."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._root = config.rootpath

    def _split_scope(self, nodeid: str) -> str:
        """Returns the name of the group of a test."""
        file = nodeid.split("::", 1)[0]
        return file if _shares(self._root / file) else nodeid


@cache
def _shares(file: Path) -> bool:
    sources = (file, file.with_name("conftest.py"))
    return any(SHARED in source.read_text() for source in sources if source.exists())
