"""Environments in which the suite must pass, besides the usual one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

BUSY = "while True: pass"


@dataclass(frozen=True)
class World:
    """``env`` is added to the environment; ``busy`` processes use CPU alongside the tests."""

    env: dict[str, str] = field(default_factory=dict)
    background: bool = (
        False  # as a shell starts `command &` in a script: SIGINT ignored, no terminal
    )
    busy: int = 0


WORLDS = {
    "background": World(background=True),
    "abroad": World({"TZ": "Asia/Kathmandu", "LC_ALL": "C", "LANG": "C"}),
    "west": World({"TZ": "America/St_Johns", "LC_ALL": "C.UTF-8", "LANGUAGE": "zh_CN:tr"}),
    "slow": World(busy=2 * (os.cpu_count() or 1)),  # each test has a third of the machine
    "private": World({"TEST_SERVERS": "private"}),
}


def run(world: World, arguments: list[str]) -> int:
    """Runs pytest with ``arguments`` in that world. Returns its exit code."""
    with _load(world.busy):
        return subprocess.run(
            [sys.executable, "-m", "pytest", *arguments],
            env={**os.environ, **world.env},
            stdin=subprocess.DEVNULL if world.background else None,
            start_new_session=world.background,
            preexec_fn=_ignore_interrupts if world.background else None,
        ).returncode


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _load(busy: int) -> Iterator[None]:
    processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(busy)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
