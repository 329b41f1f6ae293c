"""Succession: a supervisor becomes a fresh one of the new framework, in the same process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

ADOPTED = "SUPERVISOR_ADOPTS"  # environment variable: what the fresh one takes over
REHEARSAL = 30.0  # seconds


def inherited() -> dict[str, Any] | None:
    """What the supervisor before this one left in this process; None when there was none."""
    state: dict[str, Any] | None = json.loads(os.environ.pop(ADOPTED, "null"))
    return state


def rehearse(command: list[str]) -> str:
    """Why the framework on the disk has no working supervisor; "" when it has."""
    try:
        done = subprocess.run(
            [*command, "--rehearse"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=REHEARSAL,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stderr.decode("utf-8", "replace").strip() if done.returncode else ""


def become(command: list[str], state: dict[str, Any]) -> None:
    """Executes ``command`` in this process and leaves it ``state``; returns only by OSError."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(command[0], command, {**os.environ, ADOPTED: json.dumps(state)})
