"""Offspring: processes that the spiders' modules started while they were imported. They serve the
workers of that version, and end when its template and all its workers have ended, however that
came."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import NoReturn

import psutil


def of(pid: int) -> list[psutil.Process]:
    """All descendants of a process, that of one that has just ended being none."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).children(recursive=True)
    return []


def kill(processes: list[psutil.Process]) -> None:
    """With their own descendants. It is never another one with the same pid that is killed."""
    for process in processes:
        family = [process]
        with contextlib.suppress(psutil.Error):
            family += process.children(recursive=True)
        for one in family:
            with contextlib.suppress(psutil.Error):
                one.kill()


def end_with_us(processes: list[psutil.Process]) -> None:
    """They are killed when this process and all that it forks from now on have ended: a guardian
    process waits for the end of a pipe that all of them hold."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        _guard(reader, processes)
    os.close(reader)
    os.set_inheritable(writer, False)  # programs that these execute do not hold it


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
