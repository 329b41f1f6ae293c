"""The meter, on commands with known costs."""

from __future__ import annotations

import signal
import sys

import psutil
import pytest

from benchmarks.lab.meter import Metered

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="measures with Linux's /proc"),
]

BURN = """
import os, sys, time

def burn(seconds):
    while time.process_time() < seconds:
        pass
"""
# Five processes burn 0.2 s each: the command, a child, its orphan, and so on.
FAMILY = f"""{BURN}
burn(0.2)
for _ in range(2):
    if os.fork() == 0:
        grandchild = os.fork()
        burn(0.2)
        os._exit(0)
"""


def python(text):
    return [sys.executable, "-I", "-S", "-c", text]


def test_cpu_of_all_descendants_is_counted_once(tmp_path):
    # A forked process starts from 0 with its own CPU time.
    with Metered(python(FAMILY), tmp_path / "log") as run:
        usage = run.wait(60)
    assert usage.code == 0
    assert 1.0 <= usage.cpu < 1.4
    assert not run.processes()


def test_cpu_so_far_grows_to_what_it_was_in_the_end(tmp_path):
    text = f"{BURN}burn(0.3)\nprint('burnt', flush=True)\ntime.sleep(60)"
    with Metered(python(text), tmp_path / "log") as run:
        while "burnt" not in run.text():
            assert run.lives()
        before = run.cpu_seconds()
        run.send(signal.SIGTERM)
        usage = run.wait(60)
    assert usage.code == -signal.SIGTERM
    assert 0.29 <= before <= usage.cpu + 0.02  # hundredths of a second


def test_memory_is_that_of_the_largest_process(tmp_path):
    text = "import os, time\nif os.fork():\n    x = b'x' * (80 << 20)\ntime.sleep(1)"
    with Metered(python(text), tmp_path / "log") as run:
        usage = run.wait(60)
    # The second process has all but the text, and most of that is shared.
    assert 80 << 20 < usage.peak < 120 << 20
    assert 80 << 20 < usage.total < 120 << 20


def test_what_a_command_leaves_behind_is_killed_at_the_end_of_the_block(tmp_path):
    text = (
        "import os, time\nos.fork() or os.setsid()\nprint(os.getpid(), flush=True)\ntime.sleep(60)"
    )
    with Metered(python(text), tmp_path / "log") as run:
        while run.text().count("\n") < 2:
            assert run.lives()
        with pytest.raises(RuntimeError, match="has not ended after 0 s"):
            run.wait(0.1)
        pids = [int(line) for line in run.text().split()]
        assert {process.pid for process in run.processes()} == set(pids)
    assert not any(map(psutil.pid_exists, pids))


def test_the_end_of_the_log_tells_what_went_wrong(tmp_path):
    with (
        pytest.raises(RuntimeError, match=r"no-such-program: (No such file|Permission denied)"),
        Metered(["no-such-program"], tmp_path / "log") as run,
    ):
        run.wait(60)
    with Metered(python("print('before'); 1 / 0"), tmp_path / "log2") as run:
        assert run.wait(60).code == 1
    assert "ZeroDivisionError" in str(run.problem("failed"))
