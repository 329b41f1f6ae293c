"""Processes: whether a process, given by pid and start time, still runs on this machine."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import psutil


def place() -> str:
    """Boot and process namespace, within which a pid of this process is valid."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:  # not Linux: no containers with pid namespaces either
        return f"{socket.gethostname()}/{psutil.boot_time():.0f}"


def born(pid: int) -> float:
    """When a process of this machine started, in seconds; on Linux since boot, because the time of
    day changes when the clock is set. Raises psutil.NoSuchProcess."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return psutil.Process(pid).create_time()


def runs(pid: int, since: float) -> bool:
    """Whether the process with this pid, which started at ``since``, still runs here."""
    try:
        process = psutil.Process(pid)
        return abs(born(pid) - since) < 1 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
