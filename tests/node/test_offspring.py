"""Processes that end together with their keeper, and all their forks; the processes are real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from crawlframe.node.master import offspring

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
    """A process, and the processes it started, its worker last."""
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


KEPT = """
import os, signal, subprocess, sys, time
from crawlframe.node.child_process import become_child
from crawlframe.node.master import offspring

def load(loaded):
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    daemon = subprocess.run(["sh", "-c", "sleep 600 >/dev/null & echo $!"], stdout=subprocess.PIPE)
    fork = os.fork()
    if fork == 0:
        time.sleep(600)
    if "loaded" in sys.argv:
        loaded()
    print(child.pid, int(daemon.stdout), fork, flush=True)
    sys.stdin.read()
    exec(sys.argv[1])

become_child("template", os.getppid(), lambda: offspring.keep(load))
"""
CHAIN = """
import os, sys
from functools import partial
from crawlframe.node.child_process import Succession, become_child
from crawlframe.node.master import offspring

def template(number):
    offspring.keep(partial(load, number))

def load(number, loaded):
    loaded()
    frame, depth = sys._getframe(), 0
    while frame := frame.f_back:
        depth += 1
    print(depth, flush=True)
    if number == 0:
        return
    fork = os.fork()
    if fork == 0:
        raise Succession("template", os.getppid(), partial(template, number - 1))
    os.waitpid(fork, 0)

become_child("template", os.getppid(), partial(template, 5))
"""


def keeper_of(script: str, *arguments: str) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """The process that runs the script, and the processes that it names."""
    command = [sys.executable, "-c", script, *arguments]
    keeper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert keeper.stdin is not None
    assert keeper.stdout is not None
    with keeper.stdout as said, keeper.stdin:  # it continues when its input ends
        return keeper, [psutil.Process(int(word)) for word in said.readline().split()]


def kept(*arguments: str) -> tuple[int, int]:
    """How a process ended that keeps one which starts three others and then runs some code; and how
    many of those are left."""
    keeper, started = keeper_of(KEPT, *arguments)
    code = keeper.wait(20)
    left = sum(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in started)
    offspring.kill(started)
    return code, left


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("os._exit(3)", 3),
        ("os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("raise SystemExit", 1),
        ("pass", 0),
    ],
)
def test_what_an_import_has_started_ends_with_it(end: str, code: int) -> None:
    assert kept(end) == (code, 0)


def test_what_a_loaded_version_has_started_is_left_to_its_guardian() -> None:
    assert kept("os._exit(3)", "loaded") == (3, 3)


def test_the_process_that_is_kept_ends_with_its_keeper() -> None:
    script = KEPT.replace("print(", "print(os.getpid(), ")
    keeper, family = keeper_of(script, "time.sleep(600)")
    keeper.kill()
    keeper.wait()
    _, alive = psutil.wait_procs(family[:1], timeout=10)
    offspring.kill(family)
    assert not alive


def test_the_stack_of_a_process_is_left_to_it() -> None:
    """Each version of a node that runs for weeks is forked from the one before."""
    command = [sys.executable, "-c", CHAIN]
    depths = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert len(depths) == 6
    assert len({*depths}) == 1
