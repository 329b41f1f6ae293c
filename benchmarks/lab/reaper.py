"""Runs a command and reports the usage of it and all its descendants, also of orphans.

A program of its own (Linux, standard library only), which meter.py runs: it adopts orphans, so that
the kernel adds up the CPU time of every descendant here when it is waited for, and keeps the
largest resident set. Arguments: a file descriptor for the answer, and the command. SIGTERM and
SIGINT are passed on to the command."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from typing import Any

PR_SET_CHILD_SUBREAPER = 36


def main(answer: int, command: list[str]) -> None:
    """Prints a line of JSON when the last descendant has ended."""
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError("this kernel does not let a process adopt its grandchildren")
    os.set_inheritable(answer, False)
    passed_on = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, passed_on)  # until there is one to receive them
    try:
        child = subprocess.Popen(
            command, preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, passed_on)
        )
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")

    def pass_on(number: int, _: Any) -> None:
        if code is None:
            os.kill(child.pid, number)

    code: int | None = None
    for number in passed_on:
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, passed_on)
    cpu, peak = 0.0, 0
    while True:
        try:
            pid, status, usage = os.wait4(-1, 0)
        except ChildProcessError:
            break
        cpu += usage.ru_utime + usage.ru_stime
        peak = max(peak, usage.ru_maxrss * 1024)
        if pid == child.pid:
            code = os.waitstatus_to_exitcode(status)
    os.write(answer, json.dumps({"code": code, "cpu": cpu, "peak": peak}).encode())


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
