"""Supervisor: the process above the master under ``runcrawler --reload``. It watches the code,
tells the master when it has changed, starts masters anew when they die, and hands the node over to
a new master when the framework itself has changed. It runs no user code and claims nothing."""

from __future__ import annotations

import logging
import selectors
import signal
import time
from pathlib import Path

import msgspec

from crawlframe.conf import Settings
from crawlframe.errors import TablesMissing
from crawlframe.node.channel import ChannelClosed
from crawlframe.node.child_process import HANDED_OVER, describe_exit
from crawlframe.node.code import Code
from crawlframe.node.handshake import Welcome
from crawlframe.node.signals import Signals
from crawlframe.node.supervisor import reexec
from crawlframe.node.supervisor.debounce import Changes
from crawlframe.node.supervisor.git import Follower, Pulling
from crawlframe.node.supervisor.mailbox import Mailbox
from crawlframe.node.supervisor.master_processes import Restarts, Ward, Wards
from crawlframe.node.supervisor.missing_tables import Tables
from crawlframe.node.supervisor.watcher import TreeReloader, Watch

log = logging.getLogger(__name__)

HAND_OVER = 4  # times the time limit of an import that a new master may take until it serves

Identity = tuple[str, str, str]  # digest of the framework, digest of the spiders, revision


class Supervisor:
    """Runs masters with ``command`` (an argument list) until told to stop.

    ``polling``: the system does not tell of changed files. ``follower`` pulls what is announced,
    and the tip of its branch every so many seconds (0: never)."""

    def __init__(
        self,
        settings: Settings,
        command: list[str],
        code: Code,
        *,
        polling: bool,
        follower: Follower | None = None,
        follow_every: float = 0.0,
    ) -> None:
        self._command = command
        self._cwd = Path.cwd()
        self._code = code
        self._patience = HAND_OVER * settings.load_timeout  # seconds
        self._selector = selectors.DefaultSelector()
        self._wards = Wards(self._selector)
        self._signals = Signals(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
        self._selector.register(self._signals, selectors.EVENT_READ)
        self._mailbox = Mailbox()
        self._selector.register(self._mailbox, selectors.EVENT_READ)
        self._changes = Changes(code, settings.quiet)
        reloader = TreeReloader(code.trees, [*code.singles, *code.packages], polling=polling)
        self._watch = Watch(reloader, self._mailbox)
        self._pulling = Pulling(follower, follow_every, self._mailbox) if follower else None
        self._pulled = ("", "", 0)
        self._owed = 0  # announced pulls that have not ended
        self._rollout = 0  # id of the last announcement that was heeded
        self._handled: Identity | None = None  # what was loaded or refused last
        self._compared: Identity | None = None  # what a comparison asked for last
        self._outdated = False  # the framework of this process is older than that of its master
        self._stopping = False
        self._restarts = Restarts()
        self._tables = Tables()
        self._exit_code: int | None = None

    # -- life -------------------------------------------------------------------------------------

    def run(self) -> int:
        """Until told to stop, or the master ended by itself. Answers the exit code."""
        self._watch.reloader.begin()
        if not self._adopt():
            self._start()
        self._signals.hold()  # its thread inherits that: signals reach this one only
        self._watch.start()
        self._signals.let()
        if self._pulling is not None:  # its gits would inherit that too, and be deaf
            self._pulling.start()
        while self._exit_code is None:
            self._take_signals()
            self._reap()
            if self._restarts.take() and self._wards.present is None and not self._stopping:
                self._start()
            self._act()
            self._become_new()
            self._wait()
        return self._exit_code

    def _start(self, *, changed_at: float | None = None) -> None:
        """A new master: the only one, or one that is to follow the present one."""
        present = self._wards.present
        self._tables.begin()
        try:
            engine = self._code.engine_digest()
            ward = Ward.start(self._command, self._cwd, engine, captured=present is not None)
        except OSError as error:  # out of processes, memory or descriptors
            log.error("no master can be started: %s", error)
            if present is None:
                self._restarts.plan(0.0)
            else:
                present.tell("refuse", self._code.version_on_disk(), str(error))
            return
        ward.changed_at = changed_at or ward.started
        ward.version = self._code.version_on_disk() if present else ""
        self._wards.add(ward)

    def _greet(self, ward: Ward) -> None:
        """It has been imported, and waits for our word."""
        if not self._same_engine(ward):
            self._drop(ward)
            return
        present = self._wards.present if ward is not self._wards.present else None
        welcome = Welcome(
            beside=[other.pid for other in self._wards if other is not ward],
            broken=present.loaded["broken"] if present and present.loaded else None,
            changed_at=ward.changed_at,
            follows=self._pulling.follows if self._pulling else "",
            pulled=self._pulled[0],
            pull_problem=self._pulled[1],
            answered=self._pulled[2],
            rollout=self._rollout,
        )
        ward.greeted = True
        ward.tell("welcome", msgspec.to_builtins(welcome))

    def _take_signals(self) -> bool:
        """Answers whether we are to stop."""
        for number in self._signals.take():
            if number != signal.SIGCHLD:
                self._wards.stop(again=self._stopping)
                self._stopping = True
        if self._stopping and not self._wards:
            self._exit_code = 0
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
        if successor and time.monotonic() > successor.heard + self._patience:
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
                self._exit_code = 0
        elif ward.dropped:
            self._handled = None
            if self._wards.present is None:
                self._start(changed_at=ward.changed_at)
            else:
                self._changes.note(time.monotonic())
        elif ward.leaving:
            if code not in (0, HANDED_OVER):
                log.warning("a master that was leaving died (%s)", describe_exit(code))
                if self._wards.present is not None:
                    self._wards.present.tell("replay")
            self._outdated = True
        elif successor:
            self._refuse(ward, code)
        elif code == 0:
            self._exit_code = 0  # --once
        elif self._restarts.deaths == 0 and not ward.serving and code > 0:
            self._exit_code = code  # it never worked: its words say why
        else:
            log.error("the master %d died (%s); another comes", ward.pid, describe_exit(code))
            self._restarts.plan(time.monotonic() - ward.started)

    def _refuse(self, ward: Ward, code: int) -> None:
        """A master that was to follow did not get so far."""
        if self._wards.present is not None:
            self._wards.present.tell("refuse", ward.version, ward.failure(code))
        if code == TablesMissing.exit_code and self._tables.lack():
            self._changes.note(time.monotonic(), again=True)

    # -- changes ----------------------------------------------------------------------------------

    def _open_mail(self) -> None:
        """What the threads that watch and pull say."""
        present = self._wards.present
        for kind, *rest in self._mailbox.take():
            if kind == "changed":
                refused = present is not None and present.code.get("state") == "refused"
                self._changes.add(*rest, again=refused)
            else:
                revision, problem, rollout = rest
                self._owed -= bool(rollout)
                self._pulled = (revision, problem, rollout or self._pulled[2])
                if present is not None and present.greeted:  # else its welcome says it
                    present.tell("pulled", *self._pulled)
                    if rollout and present.code.get("state") == "refused":
                        self._changes.note(time.monotonic(), again=True)

    def _act(self) -> None:
        """When the code has been quiet, what changed decides: the workers or the whole node."""
        present, successor = self._wards.present, self._wards.successor
        if self._stopping or not self._changes.are_due():
            calm = present is not None and present.loaded and successor is None
            if calm and present and self._changes.go_ahead() and self._same_engine(present):
                present.tell("prepare", self._changes.at)
            return
        if successor is not None and not self._same_engine(successor):
            self._drop(successor)
        stuck = present is not None and present.greeted and present.loaded is None
        if stuck and present is not None and not self._same_engine(present):
            self._drop(present)  # another framework may load what this one cannot
        if present is None or present.loaded is None or successor is not None:
            self._changes.wait()  # what that has loaded is compared when it says so
            return
        installed = self._changes.installed
        anyway = installed or self._changes.again
        changed_at = self._changes.take()
        identity = self._look(present)
        log.debug("the code is quiet: %s, before %s", identity, self._handled)
        if identity == self._handled and not anyway:
            present.tell("forget")
            return
        self._handled = identity
        if identity[0] != present.engine or installed:
            log.info("the framework changed: a new master is started beside this one")
            present.tell("forget")
            self._start(changed_at=changed_at)
        else:
            present.tell("ask", changed_at, *identity[1:])

    def _same_engine(self, ward: Ward) -> bool:
        return self._code.engine_digest() == ward.engine

    def _look(self, ward: Ward) -> Identity:
        files = [Path(path) for path in ward.loaded["files"]] if ward.loaded else []
        return self._code.engine_digest(), *self._code.identity(files)

    def _become_new(self) -> None:
        """The framework of this process is the old one still: it becomes a fresh one with the same
        pid, which finds the master as its child."""
        if not self._outdated or self._stopping or self._owed or self._code.busy:
            return
        if self._wards.only is None:
            return
        self._outdated = False
        if problem := reexec.rehearse(self._command):
            log.error("the supervisor goes on as it is, the new one does not work: %s", problem)
            return
        self._signals.hold()  # also in the next program, until it can take them
        present = None if self._take_signals() else self._wards.only
        if present is not None and self._same_engine(present):
            log.info("the supervisor starts afresh")
            state = {"pulled": self._pulled, "rollout": self._rollout}
            reexec.become(self._command, self._cwd, present, state)
        self._signals.let()

    def _adopt(self) -> bool:
        state = reexec.inherited()
        if state is None:
            return False
        self._pulled, self._rollout = tuple(state["pulled"]), state["rollout"]
        ward = Ward.adopt(state["ward"])
        self._wards.add(ward)
        log.info("the supervisor is a fresh one; its master is %d", ward.pid)
        return True

    # -- what masters say -------------------------------------------------------------------------

    def _hear(self, ward: Ward) -> None:
        try:
            messages = ward.channel.receive()
        except ChannelClosed:
            return  # it is dead or dying; reap sees to it
        for kind, *rest in messages:
            ward.heard = time.monotonic()
            if kind == "hello":
                self._greet(ward)
            elif kind == "code":
                ward.code, ward.loaded = rest
                self._compare(ward)
            elif kind == "serving" and not ward.serving:
                self._serve(ward)
            elif kind == "tables" and self._tables.learn(*rest):
                log.info("the database was migrated: what was refused is tried again")
                self._changes.note(time.monotonic(), again=True)
            elif kind == "rollout" and self._pulling is not None:
                (rollout,) = rest
                self._rollout = rollout["id"]
                self._owed += 1
                self._pulling.ask(rollout["revision"], rollout["back"], rollout["id"])

    def _compare(self, ward: Ward) -> None:
        """What it has loaded, or refused, may not be what the disk holds by now."""
        if ward.loaded is None or ward.code["state"] not in ("live", "refused"):
            return
        self._watch.reloader.watch_also(Path(path) for path in ward.loaded["files"])
        if ward.code["state"] == "live":
            self._handled = (ward.engine, ward.loaded["digest"], ward.loaded["revision"])
            # The directory of the spiders was not there when this process looked for it.
            self._outdated |= ward.loaded["tree"] != str(self._code.spiders)
        if self._changes.at is not None:
            return  # it is looked at when that is quiet
        identity = self._look(ward)
        if identity not in (self._handled, self._compared):
            self._compared = identity  # asked for once: if it does not go live now, no more
            self._changes.note(time.monotonic())

    def _serve(self, ward: Ward) -> None:
        before = self._wards.present
        ward.serving = True
        if before is not None and before is not ward:
            before.leaving = True
            before.tell("hand over")

    # -- waiting ----------------------------------------------------------------------------------

    def _wait(self) -> None:
        lefts = (self._changes.left, self._restarts.left)
        waits = [5.0, *(left for left in lefts if left is not None)]
        if self._signals.pending or self._exit_code is not None:
            waits.append(0.0)
        for key, _ in self._selector.select(min(waits)):
            if key.fileobj is self._signals:
                self._signals.drain()
            elif key.fileobj is self._mailbox:
                self._open_mail()
            else:
                self._hear(key.data)
