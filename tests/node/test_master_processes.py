"""A supervisor's report on a master that fails before it serves."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from crawlframe.node.supervisor.master_processes import MasterProcess


@pytest.mark.forks
@pytest.mark.parametrize(
    ("program", "first"),
    [
        ("raise ValueError('no such thing')", "(exit code 1): ValueError: no such thing"),
        ("raise SystemExit('error: no Redis')", "(exit code 1): error: no Redis"),
        ("raise SystemExit(7)", "(exit code 7)"),
    ],
)
def test_the_first_line_of_a_failure_names_the_error(
    tmp_path: Path, program: str, first: str
) -> None:
    master = MasterProcess.start(
        [sys.executable, "-c", program, "--"], tmp_path, "", 0.0, captured=True
    )
    _, status = os.waitpid(master.pid, 0)
    master.channel.close()
    lines = master.failure(os.waitstatus_to_exitcode(status)).splitlines()
    assert lines[0] == f"its master died {first}"
    if "ValueError" in first:
        assert lines[1] == "Traceback (most recent call last):"
        assert lines[-1] == "ValueError: no such thing"
    else:
        assert len(lines) == 1
