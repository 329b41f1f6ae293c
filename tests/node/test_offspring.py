"""What ends with a process and all that it forks; the processes are real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from crawlframe.node.master import offspring

pytestmark = pytest.mark.forks

SCRIPT = """
import os, subprocess, sys, time
from crawlframe.node.master import offspring
from crawlframe.node.child_process import adopt_orphans

adopt_orphans()
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
# One that left its parent, as daemons do.
shell = subprocess.run(["sh", "-c", "sleep 600 >/dev/null & echo $!"], stdout=subprocess.PIPE)
adopt_orphans(False)
offspring.end_with_us(offspring.of(os.getpid()))
worker = os.fork()
if worker:
    print(child.pid, int(shell.stdout), worker, flush=True)
time.sleep(600)
"""


@pytest.fixture
def family() -> Iterator[tuple[subprocess.Popen[str], list[psutil.Process]]]:
    """A process, and what it started, with its worker as the last."""
    template = subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True)
    assert template.stdout is not None
    started = [psutil.Process(int(word)) for word in template.stdout.readline().split()]
    yield template, started
    template.kill()
    template.communicate()
    offspring.kill(started)


def test_it_outlives_neither_the_process_nor_its_forks(
    family: tuple[subprocess.Popen[str], list[psutil.Process]],
) -> None:
    template, (*helpers, worker) = family
    template.kill()
    template.wait()
    gone, _ = psutil.wait_procs(helpers, timeout=0.5)
    assert not gone  # the worker may still need them
    os.kill(worker.pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(helpers, timeout=20)
    assert not alive


def test_a_process_that_is_gone_has_none() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert offspring.of(ended.pid) == []
