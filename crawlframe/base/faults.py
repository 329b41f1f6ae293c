"""Faults: named points of the protocol where a test makes a process die, fail or wait.

They are switched on by the environment only, and cost a call of an empty function when they are
off. ``FAULT="complete.after:3:kill"``: the third time that this process reaches the point, it is
killed. Several are joined by commas. ``FAULT_MARKS`` names a directory in which each leaves a
file when it strikes, so that it strikes once in all processes; without it, once in each."""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from crawlframe.errors import ConfigError

# In addition, every verb of the frontier has two: "claim.before", "claim.after", and so on.
POINTS = (
    "begin.before", "begin.after",  # a generation
    "dispatch.before", "dispatch.after",  # the master dispatches requests
    "fetch.before", "fetch.after",
    "parse.before", "parse.after",  # a callback
    "commit.before", "commit.after",  # a transaction of the ledger
    "state.before",  # cookies and proxies of sessions are written
    "start.part.before", "start.part.after",  # the same, of a part of a start
    "finish.before", "finish.after",  # the end of a task, in the ledger
    "submit.recorded",  # a task is in the database, but not yet in Redis
    "export.plan.before", "export.plan.after",  # which rows the next batch of an export has
    "export.write.before", "export.write.after",  # it appears in its target
    "export.cursor.before", "export.cursor.after",  # that it did is recorded
    "rows.delivery.before", "rows.delivery.after",  # rows are committed in another database
    "schedule.before",  # a start that is due is written, but not committed
    "layers.recorded",  # the next layer of a task is in the database, but not yet in Redis
    "watch.round",  # a round of a watch is written, but not committed
    "reload.load",  # a template starts to load the spiders
    "reload.ready",  # the new version is live, but no worker runs it yet
    "drain.begin", "drain.end",  # a worker completes requests in flight
    "reconcile.batch",  # records of the database are written to Redis
)  # fmt: skip
ACTIONS = ("kill", "error", "delay")
DELAY = 1.5  # seconds


class Faults:
    """The faults of this process. Raises ConfigError."""

    def __init__(self, text: str, marks: str = "") -> None:
        self._faults = {*map(_checked, text.split(","))}
        self._marks = marks
        self._times: Counter[str] = Counter()

    def at(self, point: str, error: type[Exception] = OSError) -> None:
        """Called when the process reaches this point. ``error``: the type that a failure here
        raises."""
        self._times[point] += 1
        for action in ACTIONS:
            fault = f"{point}:{self._times[point]}:{action}"
            if fault not in self._faults or not self._is_first(fault):
                continue
            if action == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if action == "error":
                raise error(f"FAULT={fault}")
            time.sleep(DELAY)

    def _is_first(self, fault: str) -> bool:
        """Whether it has struck in no process before. From now on it counts as having struck."""
        if not self._marks:
            return True
        try:
            (Path(self._marks) / fault.replace(":", "_")).open("x").close()
        except FileExistsError:
            return False
        return True


def _checked(fault: str) -> str:
    point, _, rest = fault.partition(":")
    if point not in POINTS and not point.endswith((".before", ".after")):
        raise ConfigError(f"FAULT={fault}: there is no fault point {point!r}")
    if not re.fullmatch(rf"[1-9]\d*:({'|'.join(ACTIONS)})", rest):
        raise ConfigError(
            f"FAULT={fault}: write point:nth:action, nth from 1, action one of {', '.join(ACTIONS)}"
        )
    return fault


def _nowhere(point: str, error: type[Exception] = OSError) -> None:
    pass


at: Callable[..., None] = (
    Faults(os.environ["FAULT"], os.environ.get("FAULT_MARKS", "")).at
    if os.environ.get("FAULT")
    else _nowhere
)
