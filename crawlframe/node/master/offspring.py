"""Offspring: processes that the spiders' modules started while they were imported. They serve the
workers of that version, and end when its template and all its workers have ended, for whatever
reason; if the import does not complete, they end with the importing process."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from collections.abc import Callable
from typing import NoReturn

import psutil

from crawlframe.node.child_process import Child, Succession, adopt_orphans

LOADED = signal.SIGUSR1


def of(pid: int) -> list[psutil.Process]:
    """All descendants of a process; none if it has just ended."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).children(recursive=True)
    return []


def kill(processes: list[psutil.Process]) -> None:
    """Kills processes with their descendants. Never kills a later process with the same pid."""
    for process in processes:
        family = [process]
        with contextlib.suppress(psutil.Error):
            family += process.children(recursive=True)
        for one in family:
            with contextlib.suppress(psutil.Error):
                one.kill()


def kill_with_all(child: Child) -> None:
    """Kills a child of this process, with all that it has started so far."""
    started = of(child.pid)
    try:
        child.kill()
    finally:
        kill(started)


def keep(load: Callable[[Callable[[], None]], None]) -> NoReturn:
    """Runs ``load`` in a fork, and ends as that ends, by the same exit code or signal. Call it from
    a child.

    If the fork ends before it has called the function passed to ``load``, all processes it has
    started are killed. Only a process above it sees them all, because a crash leaves orphans
    (Linux)."""
    keeper, heard = os.getpid(), {LOADED, signal.SIGCHLD}
    reader, writer = os.pipe()
    signal.signal(signal.SIGCHLD, lambda *_: None)  # ignored, it would make waiting impossible
    signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    adopt_orphans()

    def loaded() -> None:
        """From now on, orphans of the fork go to the next process above."""
        os.kill(keeper, LOADED)
        os.read(reader, 1)
        os.close(reader)

    def run() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, heard)
        load(loaded)

    fork = os.fork()
    if fork == 0:
        os.close(writer)
        raise Succession("template", keeper, run)
    os.close(reader)
    complete = False
    while not (ended := os.waitpid(fork, os.WNOHANG))[0]:
        if signal.sigwait(heard) == LOADED:
            complete = True
            adopt_orphans(False)
            os.write(writer, b"1")
    if not complete:
        with contextlib.suppress(ChildProcessError):  # no child is left
            while True:
                kill(of(keeper))
                os.waitpid(-1, 0)
    _end_as(os.waitstatus_to_exitcode(ended[1]))


def _end_as(code: int) -> NoReturn:
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the fork has left its own
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
        os.kill(os.getpid(), -code)
    os._exit(code)


def end_with_us(processes: list[psutil.Process]) -> None:
    """Kills the offspring when this process and all that it forks from now on have ended: a
    guardian process waits for the end of a pipe that all of them hold."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        _guard(reader, processes)
    os.close(reader)
    os.set_inheritable(writer, False)  # programs executed by these do not hold it


def _guard(reader: int, processes: list[psutil.Process]) -> NoReturn:
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.closerange(0, reader)
        os.closerange(reader + 1, max(os.sysconf("SC_OPEN_MAX"), 1 << 16))
        os.read(reader, 1)
        kill(processes)
    finally:
        os._exit(0)
