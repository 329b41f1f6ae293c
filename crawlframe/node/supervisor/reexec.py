"""Re-execution: a supervisor executes itself again with the new framework, in the same process."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import msgspec

from crawlframe.node.supervisor_messages import Inheritance

log = logging.getLogger(__name__)

ADOPTED = "SUPERVISOR_ADOPTS"  # environment variable: the state that the new one takes over
CHECK_TIMEOUT = 30.0  # seconds


def inherited_state() -> Inheritance | None:
    """The state left by the previous supervisor in this process; None when there was none."""
    text = os.environ.pop(ADOPTED, "")
    return msgspec.json.decode(text, type=Inheritance) if text else None


def is_reexecuted() -> bool:
    """Whether this process must become a new supervisor of a running master."""
    return ADOPTED in os.environ


def check(command: list[str]) -> str:
    """Why the framework on disk has no working supervisor; "" when it has."""
    try:
        done = subprocess.run(
            [*command, "--rehearse"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=CHECK_TIMEOUT,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stderr.decode("utf-8", "replace").strip() if done.returncode else ""


def execute(command: list[str], cwd: Path, left: Inheritance) -> None:
    """Executes ``command`` in this process and passes the master on to it. Returns only if that
    fails."""
    state = msgspec.json.encode(left).decode()
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.chdir(cwd)  # another directory may have taken its place
        os.execve(command[0], command, {**os.environ, ADOPTED: state})
    except OSError as error:
        log.error("the supervisor cannot re-execute itself and goes on as it is: %s", error)
