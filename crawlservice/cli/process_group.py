"""ProcessGroup: programs that live and end together, with one output. The `up` command's engine."""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import BinaryIO

PR_SET_PDEATHSIG = 1
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
CHUNK = 1 << 16  # bytes


class GroupProcess:
    """One program, in a session of its own, so that Ctrl-C reaches only the group."""

    def __init__(self, name: str, command: list[str], pass_fds: tuple[int, ...]) -> None:
        self.name = name
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=pass_fds,
            start_new_session=True,
            preexec_fn=die_with_parent(signal.SIGTERM),
        )
        assert self.process.stdout
        self.output = self.process.stdout.fileno()
        os.set_blocking(self.output, False)
        self._rest = b""
        self.at_end = False  # of the output

    def lives(self) -> bool:
        """Whether it still runs. Processes that it leaves behind are killed: they would keep ports
        and pipes open."""
        if self.process.returncode is None and self.process.poll() is not None:
            self._kill_group()  # at once, while no other process can have its number
        return self.process.returncode is None

    def lines(self) -> list[bytes]:
        """Lines written since the last call, whole ones only."""
        try:
            while chunk := os.read(self.output, CHUNK):
                self._rest += chunk
            self.at_end = True
        except BlockingIOError:
            pass
        *lines, self._rest = self._rest.split(b"\n")
        if self._rest and (self.at_end or not self.lives() or len(self._rest) > CHUNK):
            lines, self._rest = [*lines, self._rest], b""
        return lines

    def how_it_ended(self) -> str:
        code = self.process.returncode
        return f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"

    def close(self) -> None:
        if self.process.stdout is not None:
            self.process.stdout.close()

    def kill(self) -> None:
        self._kill_group()
        self.process.wait()

    def _kill_group(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class ProcessGroup:
    """Use it as a context manager: leaving it stops every process.

    ``stop_timeout``: seconds that a process may take to stop before it is killed."""

    def __init__(self, out: BinaryIO, stop_timeout: float) -> None:
        self.out = out
        self.stop_timeout = stop_timeout
        self.members: list[GroupProcess] = []
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> ProcessGroup:
        for end in (self._wake, self._woken):
            end.setblocking(False)
        # Python writes the number of each signal to this socket; the handlers have nothing to do.
        signal.set_wakeup_fd(self._woken.fileno(), warn_on_full_buffer=False)
        for number in (*STOPPING, signal.SIGCHLD):
            self._before[number] = signal.signal(number, lambda *_: None)
        self._selector.register(self._wake, selectors.EVENT_READ)
        return self

    def __exit__(self, *error: object) -> None:
        self._ask_all(signal.SIGTERM)
        deadline = time.monotonic() + self.stop_timeout
        while any(member.lives() for member in self.members):
            left = deadline - time.monotonic()
            if left <= 0:
                break
            if self._tick(left):  # asked again: a node then drops its present requests
                self._ask_all(signal.SIGTERM)
        for member in self.members:
            if member.lives():
                member.kill()
            self._print(member)
            member.close()
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._selector.close()
        self._wake.close()
        self._woken.close()

    def start(self, name: str, command: list[str], pass_fds: tuple[int, ...] = ()) -> None:
        """Raises OSError when there is no such program."""
        member = GroupProcess(name, command, pass_fds)
        self.members.append(member)
        self._selector.register(member.output, selectors.EVENT_READ, member)

    def run(self) -> GroupProcess | None:
        """Returns None when asked to stop, or the process that ended by itself."""
        while all(member.lives() for member in self.members):
            if self._tick(None):
                return None
        return next(member for member in self.members if not member.lives())

    def _ask_all(self, number: signal.Signals) -> None:
        for member in self.members:
            if member.lives():
                member.process.send_signal(number)

    def _tick(self, timeout: float | None) -> bool:
        """Passes output on. Returns whether a signal asked us to stop."""
        asked = False
        for key, _ in self._selector.select(timeout):
            if key.data is None:
                asked = any(number in STOPPING for number in self._wake.recv(4096))
            else:
                self._print(key.data)
        return asked

    def _print(self, member: GroupProcess) -> None:
        lines = member.lines()
        label = member.name.encode()
        self.out.writelines(b"%-5s| %s\n" % (label, line) for line in lines)
        self.out.flush()
        if member.at_end and member.output in self._selector.get_map():
            self._selector.unregister(member.output)


def die_with_parent(by: signal.Signals) -> Callable[[], None] | None:
    """For ``preexec_fn``: the program gets this signal when we die, even by kill -9 (Linux)."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    return lambda: libc.prctl(PR_SET_PDEATHSIG, by)
