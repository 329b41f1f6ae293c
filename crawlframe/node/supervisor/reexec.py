"""Succession: a supervisor becomes a fresh one of the new framework, in the same process."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from crawlframe.node.supervisor.master_processes import Ward

log = logging.getLogger(__name__)

ADOPTED = "SUPERVISOR_ADOPTS"  # environment variable: what the fresh one takes over
REHEARSAL = 30.0  # seconds


def inherited() -> dict[str, Any] | None:
    """What the supervisor before this one left in this process; None when there was none."""
    state: dict[str, Any] | None = json.loads(os.environ.pop(ADOPTED, "null"))
    return state


def follows() -> bool:
    """Is this process to be a fresh supervisor of a master that lives?"""
    return ADOPTED in os.environ


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


def become(command: list[str], cwd: Path, ward: Ward, state: dict[str, Any]) -> None:
    """Executes ``command`` in this process and leaves it the master and ``state``. Returns only
    when that fails."""
    state = {**state, "ward": ward.give_away()}
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.chdir(cwd)  # another directory may be there by now
        os.execve(command[0], command, {**os.environ, ADOPTED: json.dumps(state)})
    except OSError as error:
        log.error("the supervisor cannot start afresh and goes on as it is: %s", error)
        ward.keep()
