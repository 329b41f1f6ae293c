"""Supervisor: the process above the master under ``runcrawler --reload``. It watches the code,
notifies the master of changes, restarts masters when they die, and hands the node over to a new
master when the framework itself has changed. It runs no user code and claims nothing."""

from __future__ import annotations

import logging
import selectors
import signal
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from crawlframe.code.version import written
from crawlframe.conf import Settings
from crawlframe.errors import TablesMissing
from crawlframe.node import supervisor_messages
from crawlframe.node.channel import ChannelClosed
from crawlframe.node.code import Code
from crawlframe.node.signals import HANDED_OVER, Signals, describe_exit
from crawlframe.node.supervisor import reexec
from crawlframe.node.supervisor.debounce import Changes
from crawlframe.node.supervisor.git import Follower
from crawlframe.node.supervisor.mailbox import FileChanged, Mailbox
from crawlframe.node.supervisor.master_processes import (
    RETRY_PAUSES,
    MasterProcess,
    MasterProcesses,
    MissingTables,
    Restarts,
)
from crawlframe.node.supervisor.pulls import Pulls
from crawlframe.node.supervisor.watcher import TreeReloader, WatcherThread

log = logging.getLogger(__name__)

HAND_OVER = 4  # multiple of an import's time limit within which a new master must serve

Identity = tuple[str, str, str]  # digest of the framework, digest of the spiders, revision


class Supervisor:
    """Runs masters until it is asked to stop.

    ``polling``: the system does not report changed files. ``follower`` pulls announced revisions,
    and its branch every ``follow_every`` seconds (0: never). ``clock`` is time.monotonic."""

    def __init__(
        self,
        settings: Settings,
        masters: MasterProcesses,
        code: Code,
        *,
        polling: bool,
        follower: Follower | None = None,
        follow_every: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._code = code
        self._clock = clock
        self._takeover_timeout = HAND_OVER * settings.load_timeout + settings.check_timeout
        self._masters = masters
        self._signals = Signals(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
        self.mailbox = Mailbox()
        for source in (self._signals, self.mailbox):
            masters.selector.register(source, selectors.EVENT_READ)
        self._changes = Changes(code, settings.quiet)
        reloader = TreeReloader(code.trees, [*code.singles, *code.packages], polling=polling)
        self._watcher = WatcherThread(reloader, self.mailbox)
        self._pulls = Pulls(follower, follow_every, self.mailbox)
        self._handled: Identity | None = None  # the identity that was loaded or refused last
        self._compared: Identity | None = None  # the identity that a comparison requested last
        self._outdated = False  # this process has an older framework than its master
        self._stopping = False
        self._restarts = Restarts()
        self._retries = Restarts(RETRY_PAUSES)  # of a framework that was refused
        self._missing_tables = MissingTables()
        self.exit_code: int | None = None  # of this process, once it is to end

    # -- life -------------------------------------------------------------------------------------

    def run(self) -> int:
        """Runs until it is asked to stop, or the master ended by itself. Returns the exit code."""
        self._watcher.reloader.begin()
        self.begin()
        self._signals.block()  # its thread inherits that, so that signals reach only this one
        self._watcher.start()
        self._signals.unblock()
        self._pulls.start()  # its git processes would inherit the block, too
        while self.exit_code is None:
            self.turn()
            self.listen(self._left())
        return self.exit_code

    def begin(self) -> None:
        """Takes over the master that was passed on to this process, or starts one."""
        left = reexec.inherited_state()
        if left is None:
            self._start()
            return
        self._pulls.last = supervisor_messages.CheckoutPulled(*left.pulled)
        self._pulls.rollout = left.rollout
        master = MasterProcess.adopt(left.master, self._clock())
        self._masters.add(master)
        self._extend_code(left.master.framework)
        log.info("the supervisor was re-executed; its master is %d", master.pid)

    def turn(self) -> None:
        """Does the work that is due now."""
        self._take_signals()
        self._reap()
        if self._restarts.take(self._clock()) and not (self._masters.present or self._stopping):
            self._start()
        if self._retries.take(now := self._clock()):
            present = self._masters.present
            if present is not None and not self._same_engine(present):
                self._changes.note(now, again=True)
        self._apply_changes()
        self._reexec()

    def close(self) -> None:
        """Frees its resources except the masters."""
        self._signals.close()
        self.mailbox.close()

    def _start(self, *, changed_at: float | None = None) -> None:
        """Starts a master: the only one, or a successor of the present one."""
        present = self._masters.present
        self._missing_tables.begin()
        try:
            master = self._masters.start(self._code.engine_digest(), self._clock())
        except OSError as error:  # out of processes, memory or descriptors
            log.error("no master can be started: %s", error)
            if present is None:
                self._restarts.plan(0.0, self._clock())
            else:
                version = self._code.version_on_disk()
                present.send(supervisor_messages.RefuseVersion(version, str(error)))
            return
        master.changed_at = changed_at or master.started
        master.version = self._code.version_on_disk() if present else ""

    def _send_initial_state(self, master: MasterProcess, framework: list[str]) -> None:
        """Replies to a master that is imported and waits for the initial state."""
        same = self._same_engine(master)
        if more := self._extend_code(framework):  # this process has not loaded it
            same &= not written(more, master.began)
            master.engine = self._code.engine_digest()
        if not same:
            self._drop(master)
            return
        master.greeted = True
        master.send(
            supervisor_messages.HelloReply(self._masters.initial_state(master, self._pulls))
        )

    def _extend_code(self, framework: list[str]) -> list[Path]:
        more = self._code.extend(map(Path, framework))
        self._watcher.reloader.watch_also(more)
        return more

    def _take_signals(self) -> bool:
        """Returns whether to stop."""
        for number in self._signals.take():
            if number != signal.SIGCHLD:
                self._masters.stop(again=self._stopping)
                self._stopping = True
        if self._stopping and not self._masters:
            self.exit_code = 0
        return self._stopping

    def _drop(self, master: MasterProcess) -> None:
        """Ends a master that does not serve yet, because the framework has changed since."""
        if not master.dropped and not master.serving:
            log.info("the framework changed again: another master is started")
            master.dropped = True
            master.signal(signal.SIGKILL)

    # -- masters that end -------------------------------------------------------------------------

    def _reap(self) -> None:
        successor = self._masters.successor
        if successor and self._clock() > successor.heard + self._takeover_timeout:
            successor.late = True
            successor.signal(signal.SIGKILL)
        for master, code in self._masters.dead():
            self._receive(master)
            self._on_exit(master, code)

    def _on_exit(self, master: MasterProcess, code: int) -> None:
        successor = master is self._masters.successor
        self._masters.remove(master)
        if self._stopping:
            if not self._masters:
                self.exit_code = 0
        elif master.dropped:
            self._handled = None
            if self._masters.present is None:
                self._start(changed_at=master.changed_at)
            else:
                self._changes.note(self._clock())
        elif master.leaving:
            if code not in (0, HANDED_OVER):
                log.warning("a master that was leaving died (%s)", describe_exit(code))
                if self._masters.present is not None:
                    self._masters.present.send(supervisor_messages.ReplayDead())
            self._outdated = True
        elif successor:
            self._refuse(master, code)
        elif code == 0:
            self.exit_code = 0  # --once
        elif self._restarts.deaths == 0 and not master.serving and code > 0:
            self.exit_code = code  # it never worked: its output shows why
        else:
            log.error("the master %d died (%s); starting another", master.pid, describe_exit(code))
            now = self._clock()
            self._restarts.plan(now - master.started, now)

    def _refuse(self, master: MasterProcess, code: int) -> None:
        """Handles the end of a successor that never served."""
        if (present := self._masters.present) is not None:
            present.send(supervisor_messages.RefuseVersion(master.version, master.failure(code)))
        now = self._clock()
        if code == TablesMissing.exit_code:
            if self._missing_tables.lack():
                self._changes.note(now, again=True)
        elif self._code.installed:  # packages that it imports may be installed later
            self._retries.plan(0.0, now)

    # -- changes ----------------------------------------------------------------------------------

    def _read_mailbox(self) -> None:
        """Takes the messages of the threads that watch and pull."""
        present = self._masters.present
        refused = present is not None and present.code.state == "refused"
        for message in self.mailbox.take():
            match message:
                case FileChanged(at, path):
                    self._changes.add(at, path, again=refused)
                case supervisor_messages.CheckoutPulled():
                    self._pulls.end(message)
                    if present is not None and present.greeted:  # else its InitialState has it
                        present.send(self._pulls.last)
                        if message.rollout and refused:
                            self._changes.note(self._clock(), again=True)

    def _apply_changes(self) -> None:
        """Once the code has been quiet, the kind of change decides: new workers or a new master."""
        now = self._clock()
        present, successor = self._masters.present, self._masters.successor
        if self._stopping or not self._changes.are_due(now):
            calm = present is not None and present.loaded and successor is None
            if calm and present and (at := self._changes.go_ahead()) and self._same_engine(present):
                present.send(supervisor_messages.Preload(at))
            return
        if successor is not None and not self._same_engine(successor):
            self._drop(successor)
        stuck = present is not None and present.greeted and present.loaded is None
        if stuck and present is not None and not self._same_engine(present):
            self._drop(present)  # another framework may be able to load the code
        if present is None or present.loaded is None or successor is not None:
            self._changes.wait(now)  # its loaded code is compared when it reports it
            return
        installed = self._changes.installed
        anyway = installed or self._changes.again
        changed_at = self._changes.take()
        identity = self._identity(present)
        log.debug("the code is quiet: %s, before %s", identity, self._handled)
        if identity == self._handled and not anyway:
            present.send(supervisor_messages.DropPreload())
            return
        self._handled = identity
        if identity[0] != present.engine or installed:
            log.info("the framework changed: a new master is started next to this one")
            present.send(supervisor_messages.DropPreload())
            self._start(changed_at=changed_at)
        else:
            present.send(supervisor_messages.Reload(changed_at, *identity[1:]))

    def _same_engine(self, master: MasterProcess) -> bool:
        return self._code.engine_digest() == master.engine

    def _identity(self, master: MasterProcess) -> Identity:
        files = [Path(path) for path in master.loaded.files] if master.loaded else []
        return self._code.engine_digest(), *self._code.identity(files)

    def _reexec(self) -> None:
        """This process still has the old framework: executes itself again under the same pid; the
        new program finds the master as its child."""
        if not self._outdated or self._stopping or self._pulls.owed or self._code.busy:
            return
        if self._masters.only is None:
            return
        self._outdated = False
        if problem := reexec.check(self._masters.command):
            log.error("the supervisor goes on as it is, the new one does not work: %s", problem)
            return
        self._signals.block()  # also in the next program, until it can take them
        present = None if self._take_signals() else self._masters.only
        if present is not None and self._same_engine(present):
            log.info("the supervisor re-executes itself")
            pulled = msgspec.structs.astuple(self._pulls.last)
            passed = present.pass_on(self._code.engine_paths)
            left = supervisor_messages.Inheritance(pulled, self._pulls.rollout, passed)
            reexec.execute(self._masters.command, self._masters.cwd, left)
            present.take_back()
        self._signals.unblock()

    # -- messages of masters ---------------------------------------------------------------------

    def _receive(self, master: MasterProcess) -> None:
        try:
            heard = master.channel.receive()
        except ChannelClosed:
            return  # it is dead or dying; reap handles that
        for message in heard:
            master.heard = self._clock()
            match message:
                case supervisor_messages.Hello(framework):
                    self._send_initial_state(master, framework)
                case supervisor_messages.CodeReport(state, loaded):
                    self._compare(master, runs=master.take_report(state, loaded))
                case supervisor_messages.Serving() if not master.serving:
                    self._serve(master)
                case supervisor_messages.Migrations(mark) if self._missing_tables.learn(mark):
                    log.info("the database was migrated: what was refused is tried again")
                    self._changes.note(master.heard, again=True)
                case supervisor_messages.RolloutAnnounced(rollout):
                    self._pulls.request(rollout)

    def _compare(self, master: MasterProcess, *, runs: bool) -> None:
        """Checks whether the code that it has loaded and ``runs``, or refused, is still on disk."""
        if master.loaded is None or not (runs or master.code.state == "refused"):
            return
        self._watcher.reloader.watch_also(Path(path) for path in master.loaded.files)
        if runs:
            self._handled = (master.engine, master.loaded.digest, master.loaded.revision)
            # The directory of the spiders was not there when this process looked for it.
            self._outdated |= master.loaded.tree != str(self._code.spiders)
        if self._changes.at is not None:
            return  # it is compared once that is quiet
        identity = self._identity(master)
        if identity not in (self._handled, self._compared):
            self._compared = identity  # requested once: not again if it does not go live now
            self._changes.note(self._clock())

    def _serve(self, master: MasterProcess) -> None:
        before = self._masters.present
        master.serving = True
        self._retries = Restarts(RETRY_PAUSES)
        if before is not None and before is not master:
            before.leaving = True
            before.send(supervisor_messages.HandOver())

    # -- waiting ----------------------------------------------------------------------------------

    def _left(self) -> float:
        """Seconds until something may be due, if no message arrives before."""
        now = self._clock()
        lefts = (self._changes.left(now), self._restarts.left(now), self._retries.left(now))
        waits = [5.0, *(left for left in lefts if left is not None)]
        if self._signals.pending or self.exit_code is not None:
            waits.append(0.0)
        return min(waits)

    def listen(self, seconds: float) -> None:
        """Waits up to ``seconds`` for signals, changes and messages of masters, and handles
        them."""
        for key, _ in self._masters.selector.select(seconds):
            if key.fileobj is self._signals:
                self._signals.drain()
            elif key.fileobj is self.mailbox:
                self._read_mailbox()
            else:
                self._receive(key.data)
