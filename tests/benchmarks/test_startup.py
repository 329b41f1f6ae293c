from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import pytest

from benchmarks.startup.starts import Place, embedded, starts
from crawlframe.embedded import guardian


@pytest.mark.process
def test_a_start_is_measured_and_leaves_nothing_running(tmp_path: Path) -> None:
    var = tmp_path / "var"
    [start] = starts(Place("SQLite, own Redis", var, embedded(var)), 1)
    assert start.seconds > 0
    assert start.cpu > 0
    log = (var / "node.log").read_text()
    assert log.count("node startup ended") == 2  # the one that made the tables, and the measured
    assert "ERROR" not in log
    # The guardian stops the server when it sees that its last user is gone.
    lock = guardian.open_lock(var / "redis" / "users.lock")
    try:
        deadline = time.monotonic() + 10
        while not guardian.try_lock(lock, fcntl.LOCK_EX):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        os.close(lock)
