"""Supervisor: the process above the master under ``runcrawler --reload``. It watches the code,
tells the master when it has changed, starts masters anew when they die, and hands the node over to
a new master when the framework itself has changed. It runs no user code and claims nothing."""

from __future__ import annotations

import logging
import selectors
import signal
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from crawlframe.conf import Settings
from crawlframe.errors import TablesMissing
from crawlframe.node import messages
from crawlframe.node.channel import ChannelClosed
from crawlframe.node.child_process import HANDED_OVER, describe_exit
from crawlframe.node.code import Code
from crawlframe.node.signals import Signals
from crawlframe.node.supervisor import reexec
from crawlframe.node.supervisor.debounce import Changes
from crawlframe.node.supervisor.git import Follower, Pulling
from crawlframe.node.supervisor.mailbox import Mailbox
from crawlframe.node.supervisor.master_processes import Restarts, Ward, Wards
from crawlframe.node.supervisor.missing_tables import Tables
from crawlframe.node.supervisor.pulls import Pulls
from crawlframe.node.supervisor.watcher import TreeReloader, Watch

log = logging.getLogger(__name__)

HAND_OVER = 4  # times the time limit of an import that a new master may take until it serves

Identity = tuple[str, str, str]  # digest of the framework, digest of the spiders, revision


class Supervisor:
    """Runs masters until told to stop.

    ``polling``: the system does not tell of changed files. ``follower`` pulls what is announced,
    and the tip of its branch every so many seconds (0: never). ``clock`` is time.monotonic."""

    def __init__(
        self,
        settings: Settings,
        wards: Wards,
        code: Code,
        *,
        polling: bool,
        follower: Follower | None = None,
        follow_every: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._code = code
        self._clock = clock
        self._patience = HAND_OVER * settings.load_timeout  # seconds
        self._wards = wards
        self._signals = Signals(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
        self.mailbox = Mailbox()
        for source in (self._signals, self.mailbox):
            wards.selector.register(source, selectors.EVENT_READ)
        self._changes = Changes(code, settings.quiet)
        reloader = TreeReloader(code.trees, [*code.singles, *code.packages], polling=polling)
        self._watch = Watch(reloader, self.mailbox)
        self._pulls = Pulls(Pulling(follower, follow_every, self.mailbox) if follower else None)
        self._handled: Identity | None = None  # what was loaded or refused last
        self._compared: Identity | None = None  # what a comparison asked for last
        self._outdated = False  # the framework of this process is older than that of its master
        self._stopping = False
        self._restarts = Restarts()
        self._tables = Tables()
        self.exit_code: int | None = None  # of this process, once it is to end

    # -- life -------------------------------------------------------------------------------------

    def run(self) -> int:
        """Until told to stop, or the master ended by itself. Answers the exit code."""
        self._watch.reloader.begin()
        self.begin()
        self._signals.hold()  # its thread inherits that: signals reach this one only
        self._watch.start()
        self._signals.let()
        self._pulls.start()  # its gits would inherit that too, and be deaf
        while self.exit_code is None:
            self.turn()
            self.listen(self._left())
        return self.exit_code

    def begin(self) -> None:
        """Takes over the master that was left to this process, or starts one."""
        left = reexec.inherited()
        if left is None:
            self._start()
            return
        self._pulls.last = messages.CheckoutPulled(*left.pulled)
        self._pulls.rollout = left.rollout
        ward = Ward.adopt(left.master, self._clock())
        self._wards.add(ward)
        log.info("the supervisor is a fresh one; its master is %d", ward.pid)

    def turn(self) -> None:
        """What is due now."""
        self._take_signals()
        self._reap()
        if self._restarts.take(self._clock()) and not (self._wards.present or self._stopping):
            self._start()
        self._act()
        self._become_new()

    def close(self) -> None:
        """Frees what it holds besides its masters."""
        self._signals.close()
        self.mailbox.close()

    def _start(self, *, changed_at: float | None = None) -> None:
        """A new master: the only one, or one that is to follow the present one."""
        present = self._wards.present
        self._tables.begin()
        try:
            ward = self._wards.start(self._code.engine_digest(), self._clock())
        except OSError as error:  # out of processes, memory or descriptors
            log.error("no master can be started: %s", error)
            if present is None:
                self._restarts.plan(0.0, self._clock())
            else:
                version = self._code.version_on_disk()
                present.tell(messages.RefuseVersion(version, str(error)))
            return
        ward.changed_at = changed_at or ward.started
        ward.version = self._code.version_on_disk() if present else ""

    def _greet(self, ward: Ward) -> None:
        """It has been imported, and waits for our word."""
        if not self._same_engine(ward):
            self._drop(ward)
            return
        ward.greeted = True
        ward.tell(messages.Welcome(self._wards.initial_state(ward, self._pulls)))

    def _take_signals(self) -> bool:
        """Answers whether we are to stop."""
        for number in self._signals.take():
            if number != signal.SIGCHLD:
                self._wards.stop(again=self._stopping)
                self._stopping = True
        if self._stopping and not self._wards:
            self.exit_code = 0
        return self._stopping

    def _drop(self, ward: Ward) -> None:
        """It does not serve yet, and the framework is another by now."""
        if not ward.dropped and not ward.serving:
            log.info("the framework changed once more: another master is started")
            ward.dropped = True
            ward.signal(signal.SIGKILL)

    # -- masters that end -------------------------------------------------------------------------

    def _reap(self) -> None:
        successor = self._wards.successor
        if successor and self._clock() > successor.heard + self._patience:
            successor.late = True
            successor.signal(signal.SIGKILL)
        for ward, code in self._wards.dead():
            self._hear(ward)
            self._lose(ward, code)

    def _lose(self, ward: Ward, code: int) -> None:
        successor = ward is self._wards.successor
        self._wards.remove(ward)
        if self._stopping:
            if not self._wards:
                self.exit_code = 0
        elif ward.dropped:
            self._handled = None
            if self._wards.present is None:
                self._start(changed_at=ward.changed_at)
            else:
                self._changes.note(self._clock())
        elif ward.leaving:
            if code not in (0, HANDED_OVER):
                log.warning("a master that was leaving died (%s)", describe_exit(code))
                if self._wards.present is not None:
                    self._wards.present.tell(messages.ReplayDead())
            self._outdated = True
        elif successor:
            self._refuse(ward, code)
        elif code == 0:
            self.exit_code = 0  # --once
        elif self._restarts.deaths == 0 and not ward.serving and code > 0:
            self.exit_code = code  # it never worked: its words say why
        else:
            log.error("the master %d died (%s); another comes", ward.pid, describe_exit(code))
            now = self._clock()
            self._restarts.plan(now - ward.started, now)

    def _refuse(self, ward: Ward, code: int) -> None:
        """A master that was to follow did not get so far."""
        if (present := self._wards.present) is not None:
            present.tell(messages.RefuseVersion(ward.version, ward.failure(code)))
        if code == TablesMissing.exit_code and self._tables.lack():
            self._changes.note(self._clock(), again=True)

    # -- changes ----------------------------------------------------------------------------------

    def _open_mail(self) -> None:
        """What the threads that watch and pull say."""
        present = self._wards.present
        refused = present is not None and present.code.state == "refused"
        for message in self.mailbox.take():
            match message:
                case messages.FileChanged(at, path):
                    self._changes.add(at, path, again=refused)
                case messages.PullEnded():
                    self._pulls.end(message)
                    if present is not None and present.greeted:  # else its welcome says it
                        present.tell(self._pulls.last)
                        if message.rollout and refused:
                            self._changes.note(self._clock(), again=True)

    def _act(self) -> None:
        """When the code has been quiet, what changed decides: the workers or the whole node."""
        now = self._clock()
        present, successor = self._wards.present, self._wards.successor
        if self._stopping or not self._changes.are_due(now):
            calm = present is not None and present.loaded and successor is None
            if calm and present and (at := self._changes.go_ahead()) and self._same_engine(present):
                present.tell(messages.Preload(at))
            return
        if successor is not None and not self._same_engine(successor):
            self._drop(successor)
        stuck = present is not None and present.greeted and present.loaded is None
        if stuck and present is not None and not self._same_engine(present):
            self._drop(present)  # another framework may load what this one cannot
        if present is None or present.loaded is None or successor is not None:
            self._changes.wait(now)  # what that has loaded is compared when it says so
            return
        installed = self._changes.installed
        anyway = installed or self._changes.again
        changed_at = self._changes.take()
        identity = self._look(present)
        log.debug("the code is quiet: %s, before %s", identity, self._handled)
        if identity == self._handled and not anyway:
            present.tell(messages.DropPreload())
            return
        self._handled = identity
        if identity[0] != present.engine or installed:
            log.info("the framework changed: a new master is started beside this one")
            present.tell(messages.DropPreload())
            self._start(changed_at=changed_at)
        else:
            present.tell(messages.Reload(changed_at, *identity[1:]))

    def _same_engine(self, ward: Ward) -> bool:
        return self._code.engine_digest() == ward.engine

    def _look(self, ward: Ward) -> Identity:
        files = [Path(path) for path in ward.loaded.files] if ward.loaded else []
        return self._code.engine_digest(), *self._code.identity(files)

    def _become_new(self) -> None:
        """The framework of this process is the old one still: it becomes a fresh one with the same
        pid, which finds the master as its child."""
        if not self._outdated or self._stopping or self._pulls.owed or self._code.busy:
            return
        if self._wards.only is None:
            return
        self._outdated = False
        if problem := reexec.rehearse(self._wards.command):
            log.error("the supervisor goes on as it is, the new one does not work: %s", problem)
            return
        self._signals.hold()  # also in the next program, until it can take them
        present = None if self._take_signals() else self._wards.only
        if present is not None and self._same_engine(present):
            log.info("the supervisor starts afresh")
            pulled = msgspec.structs.astuple(self._pulls.last)
            left = messages.Inheritance(pulled, self._pulls.rollout, present.give_away())
            reexec.become(self._wards.command, self._wards.cwd, left)
            present.keep()
        self._signals.let()

    # -- what masters say -------------------------------------------------------------------------

    def _hear(self, ward: Ward) -> None:
        try:
            heard = ward.channel.receive()
        except ChannelClosed:
            return  # it is dead or dying; reap sees to it
        for message in heard:
            ward.heard = self._clock()
            match message:
                case messages.Hello():
                    self._greet(ward)
                case messages.CodeReport(state, loaded):
                    ward.code, ward.loaded = state, loaded
                    self._compare(ward)
                case messages.Serving() if not ward.serving:
                    self._serve(ward)
                case messages.Migrations(mark) if self._tables.learn(mark):
                    log.info("the database was migrated: what was refused is tried again")
                    self._changes.note(ward.heard, again=True)
                case messages.RolloutAnnounced(rollout):
                    self._pulls.request(rollout)

    def _compare(self, ward: Ward) -> None:
        """What it has loaded, or refused, may not be what the disk holds by now."""
        if ward.loaded is None or ward.code.state not in ("live", "refused"):
            return
        self._watch.reloader.watch_also(Path(path) for path in ward.loaded.files)
        if ward.code.state == "live":
            self._handled = (ward.engine, ward.loaded.digest, ward.loaded.revision)
            # The directory of the spiders was not there when this process looked for it.
            self._outdated |= ward.loaded.tree != str(self._code.spiders)
        if self._changes.at is not None:
            return  # it is looked at when that is quiet
        identity = self._look(ward)
        if identity not in (self._handled, self._compared):
            self._compared = identity  # asked for once: if it does not go live now, no more
            self._changes.note(self._clock())

    def _serve(self, ward: Ward) -> None:
        before = self._wards.present
        ward.serving = True
        if before is not None and before is not ward:
            before.leaving = True
            before.tell(messages.HandOver())

    # -- waiting ----------------------------------------------------------------------------------

    def _left(self) -> float:
        """Seconds until something may be due, if nothing is heard before."""
        now = self._clock()
        lefts = (self._changes.left(now), self._restarts.left(now))
        waits = [5.0, *(left for left in lefts if left is not None)]
        if self._signals.pending or self.exit_code is not None:
            waits.append(0.0)
        return min(waits)

    def listen(self, seconds: float) -> None:
        """Waits so long for signals, changes and masters, and hears them."""
        for key, _ in self._wards.selector.select(seconds):
            if key.fileobj is self._signals:
                self._signals.drain()
            elif key.fileobj is self.mailbox:
                self._open_mail()
            else:
                self._hear(key.data)
