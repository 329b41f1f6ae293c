"""Metered: a command whose process tree is measured: CPU seconds of all, memory of each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import psutil

from benchmarks.lab import reaper
from crawlservice.cli.process_group import die_with_parent

SAMPLE_EVERY = 0.25  # seconds between two measurements of the memory


class Usage(NamedTuple):
    """The resources used by a command, with all its descendants."""

    code: int  # its exit status, negative for a signal
    seconds: float  # from its start until the last descendant had ended
    cpu: float  # seconds, user and system, also of descendants that ended on the way
    peak: int  # bytes: the largest resident set of a process
    total: int  # bytes: the largest sum over all processes, shared pages counted once


class Metered:
    """``with Metered(command, log) as run: usage = run.wait(60)``. Output goes to the file ``log``;
    processes left at the end of the block are killed.

    ``cpu`` and ``peak`` are exact, as the kernel keeps them; ``total`` is read four times a second.
    Needs Linux."""

    def __init__(
        self,
        command: Iterable[str | Path],
        log: Path,
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.command = [str(word) for word in command]
        self.log = log
        self._cwd = cwd
        self._env = env
        self._total = 0
        self._ended = threading.Event()
        self.usage: Usage | None = None  # known when it has ended

    def __enter__(self) -> Metered:
        answer, writer = os.pipe()
        program = [sys.executable, "-I", "-S", reaper.__file__, str(writer), *self.command]
        self._started = time.monotonic()
        try:
            with self.log.open("ab") as log:
                self._process = subprocess.Popen(
                    program,
                    cwd=self._cwd,
                    env=self._env,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=[writer],
                    start_new_session=True,
                    preexec_fn=die_with_parent(signal.SIGTERM),
                )
        finally:
            os.close(writer)
        self._answer = os.fdopen(answer)
        self._looking = threading.Thread(target=self._sample, daemon=True)
        self._looking.start()
        return self

    def wait(self, timeout: float) -> Usage:
        """Waits until all have ended. Raises RuntimeError, with the end of the log, when that takes
        more than ``timeout`` seconds."""
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise self.problem(f"has not ended after {timeout:.0f} s") from None
        seconds = time.monotonic() - self._started
        data = self._answer.read()
        if not data:
            raise self.problem("could not be measured")
        self._stop_looking()
        answer = json.loads(data)
        self.usage = Usage(answer["code"], seconds, answer["cpu"], answer["peak"], self._total)
        return self.usage

    def send(self, number: signal.Signals) -> None:
        """Sends SIGTERM or SIGINT to the command itself."""
        self._process.send_signal(number)

    def lives(self) -> bool:
        return self._process.poll() is None

    def cpu_seconds(self) -> float:
        """CPU seconds used so far, to a hundredth of a second per process."""
        own = psutil.Process(self._process.pid)
        total = sum(own.cpu_times()[2:4])  # of children that ended
        for process in own.children(recursive=True):
            try:
                total += sum(process.cpu_times()[:4])
            except psutil.Error:
                continue
        return float(total)

    def processes(self) -> list[psutil.Process]:
        """The living processes, without their meters."""
        try:
            return psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def text(self) -> str:
        """All output so far."""
        return self.log.read_text(errors="replace")

    def problem(self, what: str) -> RuntimeError:
        """An error that shows the end of the log."""
        name = " ".join(Path(word).name for word in self.command[:3])
        tail = "\n".join(self.text().splitlines()[-20:])
        return RuntimeError(f"{name} {what}; the end of its log:\n{tail}")

    def _sample(self) -> None:
        while not self._ended.wait(SAMPLE_EVERY):
            total = 0
            for process in self.processes():
                try:
                    total += process.memory_full_info().pss
                except (psutil.Error, OSError):
                    continue
            self._total = max(self._total, total)

    def _stop_looking(self) -> None:
        self._ended.set()
        self._looking.join()

    def __exit__(self, *error: object) -> None:
        self._stop_looking()
        while self.lives():
            for process in self.processes():
                try:
                    process.kill()
                except psutil.Error:
                    continue
            try:
                self._process.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
        self._answer.close()
