"""MasterProcesses: the masters of one supervisor, their roles, and when they are started again."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crawlframe.code.version import CLOCK_LAG
from crawlframe.frontier.cluster.nodes import CodeState
from crawlframe.node.channel import ChannelClosed
from crawlframe.node.signals import describe_exit
from crawlframe.node.supervisor.pulls import Pulls
from crawlframe.node.supervisor_messages import (
    AdoptedMaster,
    InitialState,
    LoadedCode,
    SendCodeReport,
    ToMaster,
    ToMasterLine,
    to_master,
)

MAX_WORDS = 16384  # bytes of its standard error that are reported with a master's failure
RESTART_PAUSES = (0.0, 0.5, 1.0, 2.0, 3.0)  # seconds before the next start, by deaths in a row
RETRY_PAUSES = (5.0, 15.0, 60.0, 300.0)  # the same for a framework that was refused
STEADY_SECONDS = 30.0  # seconds of life after which a death does not count as repeated


class MasterProcess:
    """``engine``: digest of the framework that it runs; ``code``: its last code report; ``loaded``:
    the code that it has loaded, if any. ``now`` is time.monotonic()."""

    def __init__(self, pid: int, channel: ToMasterLine, engine: str, now: float) -> None:
        self.pid = pid
        self.channel = channel
        self.engine = engine
        self.started = now
        self.began = time.time_ns() - CLOCK_LAG  # files with later times it may not have read
        self.changed_at = self.started  # when the change that it must make live was seen
        self.heard = self.started  # when its last message arrived
        self.late = False  # it was silent for too long
        self.dropped = False  # its version is no longer the version on disk
        self.version = ""  # label of the code that it must make live
        self.greeted = False  # it has received the initial state
        self.serving = False  # at least one worker is ready
        self.leaving = False
        self.code = CodeState()
        self.loaded: LoadedCode | None = None
        self._capture: Any = None

    def take_report(self, code: CodeState, loaded: LoadedCode | None) -> bool:
        """Takes a code report. Returns whether it runs its loaded code, or accepted it just now and
        will run it with its next worker."""
        accepted = loaded != self.loaded and code.state != "refused"
        self.code, self.loaded = code, loaded
        return accepted or code.state == "live"

    @classmethod
    def start(
        cls,
        command: list[str],
        cwd: Path,
        engine: str,
        now: float,
        *,
        captured: bool,
        first: bool = False,
    ) -> MasterProcess:
        """Runs ``command`` in ``cwd``, which must become a master. ``captured``: its standard error
        until then is kept for ``words``."""
        ours, theirs = socket.socketpair()
        fds = [theirs.fileno()]
        command = [*command, "--supervised", str(fds[0]), *(["--first"] if first else [])]
        capture = tempfile.TemporaryFile() if captured else None  # noqa: SIM115
        if captured:
            fds.append(os.dup(2))
            command += ["--log-fd", str(fds[1])]
        process = subprocess.Popen(
            command,
            cwd=cwd,
            stderr=capture,
            pass_fds=fds,
            start_new_session=True,  # the terminal's Ctrl-C reaches only the supervisor
        )
        process.returncode = 0  # it is waited for by its pid, like an adopted one
        theirs.close()
        for fd in fds[1:]:
            os.close(fd)
        master = cls(process.pid, to_master(ours), engine, now)
        master._capture = capture
        return master

    @classmethod
    def adopt(cls, left: AdoptedMaster, now: float) -> MasterProcess:
        """A master that another supervisor in this same process had started."""
        os.set_inheritable(left.fd, False)
        master = cls(left.pid, to_master(socket.socket(fileno=left.fd)), left.engine, now)
        master.greeted = master.serving = True
        master.send(SendCodeReport())
        return master

    def pass_on(self, framework: list[str]) -> AdoptedMaster:
        """The state that ``adopt`` needs in the program that this process executes next."""
        os.set_inheritable(self.channel.fileno(), True)
        return AdoptedMaster(self.pid, self.channel.fileno(), self.engine, framework)

    def take_back(self) -> None:
        """Cancels ``pass_on``: it stays with this program."""
        os.set_inheritable(self.channel.fileno(), False)

    def send(self, message: ToMaster) -> None:
        try:
            self.channel.send(message)
        except ChannelClosed:
            pass  # its end shows up as an exit code

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal; it is our child and not reaped yet, so the pid cannot be another's."""
        os.kill(self.pid, number)

    def failure(self, code: int) -> str:
        """Why it never served."""
        if self.code.state == "refused":
            return self.code.problem
        how = "was silent for too long" if self.late else f"died ({describe_exit(code)})"
        words = self.words()
        reason = words.rpartition("\n")[2]  # of a traceback, the line that names the error
        first = f"its master {how}: {reason}" if reason else f"its master {how}"
        return f"{first}\n{words}" if words != reason else first

    def words(self) -> str:
        """Its standard error before it was a master. Can be read only once."""
        capture, self._capture = self._capture, None
        if capture is None:
            return ""
        with capture:
            size = capture.seek(0, os.SEEK_END)
            capture.seek(max(0, size - MAX_WORDS))
            text: bytes = capture.read()
        return text.decode("utf-8", "replace").strip()


class MasterProcesses:
    """Masters are started with ``command`` (an argument list) and registered with ``selector``,
    each with itself as the data."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.cwd = Path.cwd()
        self.selector = selectors.DefaultSelector()
        self._all: list[MasterProcess] = []
        self._started = False  # there was one

    def __iter__(self) -> Iterator[MasterProcess]:
        return iter([*self._all])

    def __bool__(self) -> bool:
        return bool(self._all)

    def start(self, engine: str, now: float) -> MasterProcess:
        """Starts a master: the only one, or a successor of the present one. Raises OSError."""
        known = {"first": not self._started, "captured": self.present is not None}
        master = MasterProcess.start(self.command, self.cwd, engine, now, **known)
        self.add(master)
        return master

    def add(self, master: MasterProcess) -> None:
        self._started = True
        self._all.append(master)
        self.selector.register(master.channel, selectors.EVENT_READ, master)

    def remove(self, master: MasterProcess) -> None:
        self._all.remove(master)
        self.selector.unregister(master.channel)
        master.channel.close()

    @property
    def present(self) -> MasterProcess | None:
        """The master that runs the node: the serving one, else the oldest."""
        staying = [master for master in self._all if not master.leaving]
        return next(
            (master for master in staying if master.serving), staying[0] if staying else None
        )

    @property
    def successor(self) -> MasterProcess | None:
        """The master that will replace the present one, if there is one."""
        present = self.present
        others = (master for master in self._all if not master.leaving and master is not present)
        return next(others, None)

    @property
    def only(self) -> MasterProcess | None:
        """The present master, if it serves, no other is alive, and no message is half read; else
        None."""
        present = self.present
        calm = present is not None and present.serving and present.channel.idle
        return present if calm and len(self._all) == 1 else None

    def initial_state(self, master: MasterProcess, pulls: Pulls) -> InitialState:
        """Returns the initial state for a new master."""
        present = self.present if master is not self.present else None
        return InitialState(
            beside=[other.pid for other in self if other is not master],
            broken=present.loaded.broken if present and present.loaded else None,
            changed_at=master.changed_at,
            follows=pulls.follows,
            pulled=pulls.last.revision,
            pull_problem=pulls.last.problem,
            answered=pulls.last.rollout,
            rollout=pulls.rollout,
            follow_every=pulls.every,
        )

    def dead(self) -> Iterator[tuple[MasterProcess, int]]:
        """Yields masters that have ended since the last call, with their exit codes."""
        for master in self:
            pid, status = os.waitpid(master.pid, os.WNOHANG)
            if pid:
                yield master, os.waitstatus_to_exitcode(status)

    def stop(self, *, again: bool) -> None:
        """Stops all masters; with ``again``, they give up their fetches."""
        for master in self._all:
            if again or not master.leaving:
                master.signal(signal.SIGTERM)


class Restarts:
    """When to start a master again: after ``pauses`` in seconds, by ``deaths`` in a row; the last
    one is repeated. ``now`` is time.monotonic()."""

    def __init__(self, pauses: tuple[float, ...] = RESTART_PAUSES) -> None:
        self.deaths = 0
        self._pauses = pauses
        self._at: float | None = None

    def plan(self, lived: float, now: float) -> None:
        """Plans a restart after the death of a master that lived this many seconds."""
        if lived > STEADY_SECONDS:
            self.deaths = 0
        self._at = now + self._pauses[min(self.deaths, len(self._pauses) - 1)]
        self.deaths += 1

    def left(self, now: float) -> float | None:
        """Seconds until the next start is due; None when none is planned."""
        return None if self._at is None else max(0.0, self._at - now)

    def take(self, now: float) -> bool:
        """Whether a start is due. If so, it is no longer planned."""
        if self._at is None or now < self._at:
            return False
        self._at = None
        return True


class MissingTables:
    """A framework that was refused because the database lacks its tables is tried again after the
    database has been migrated. A mark identifies the applied migrations; stewards report it when it
    changes."""

    def __init__(self) -> None:
        self._mark = self._tried = ""
        self._lacking = False

    def begin(self) -> None:
        """A new master starts to check the tables."""
        self._tried, self._lacking = self._mark, False

    def lack(self) -> bool:
        """The master ended because tables are missing. Returns whether to try again at once,
        because there was a migration in the meantime."""
        self._lacking = self._mark == self._tried
        return not self._lacking

    def learn(self, mark: str) -> bool:
        """Takes the current mark. Returns whether to try again the master that lacked tables."""
        again = self._lacking and mark != self._mark
        self._mark = mark
        self._lacking &= not again
        return again
