"""Child: the master's view of a forked process, and how a fork becomes a child."""

from __future__ import annotations

import ctypes
import logging
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable
from typing import NoReturn

from crawlframe.errors import CrawlframeError
from crawlframe.frontier import Claimed, GivenBack
from crawlframe.node.messages import FromChildLine, ToChildLine, child_line
from crawlframe.node.running_marks import RunningMarks

log = logging.getLogger(__name__)

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
WORKERS = (
    "worker",  # takes any request
    "cpu",  # for callbacks that compute
    "isolated",  # for requests that must run alone, one at a time
    "task",  # followed by its number: for the requests of one task
)
CHECKER = "checker"  # the role of a process that replays recorded pages
ADOPT_SECONDS = 5.0  # seconds a process may take to become the master's child
CAN_ADOPT = sys.platform == "linux"


class Child:
    """One steward, template or worker. ``held``: the requests sent to it and not settled yet;
    ``version``: the code that it runs."""

    def __init__(
        self,
        role: str,
        pid: int,
        channel: ToChildLine,
        marks: RunningMarks | None = None,
        place: int = 0,
    ) -> None:
        self.role = role
        self.pid = pid
        self.channel = channel
        self.origin: object = None  # the Loaded code that a worker runs
        self.held: dict[bytes, Claimed] = {}
        self._again: dict[bytes, int] = {}  # rid -> times it was given again before it was settled
        self.credits = 0
        self.ready = False
        self.early = False  # its code is not live yet, so it is given nothing
        self.relieved = False  # it completes the callbacks that hold it up, and ends
        self.retiring_since: float | None = None
        self.dismissed = False  # it was killed because it did not end in time, or was not needed
        self.overdue = False  # it was killed because it hung
        self.born = self.last_beat = time.monotonic()
        self.rss = 0  # bytes
        self.stuck = False  # whether it says that a parser does not end
        self.waits = ""  # reason for which its results or chores wait
        self.failures = 0  # of its chores, lately
        self._marks, self._place = marks, place

    @classmethod
    def spawn(cls, role: str, main: Callable[[FromChildLine], None]) -> Child:
        """Forks. The child runs ``main`` with its end of the channel, then exits."""
        ours, theirs = child_line()
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            ours.close()
            become_child(role, parent, lambda: main(theirs))
        theirs.close()
        return cls(role, pid, ours)

    @property
    def staying(self) -> bool:
        return self.retiring_since is None and not self.relieved

    @property
    def in_loop(self) -> bytes | None:
        """The request whose callback holds its event loop."""
        return self._marks.in_loop(self._place) if self._marks else None

    @property
    def steps(self) -> bytes:
        """A value that changes with each step of an async callback in its event loop."""
        return self._marks.steps(self._place) if self._marks else b""

    @property
    def running(self) -> frozenset[bytes]:
        """The requests whose callbacks are running in it, or were when it ended."""
        return self._marks.running(self._place) if self._marks else frozenset()

    @property
    def works(self) -> bool:
        """Whether it is a worker, of whatever kind."""
        return self.role.partition(" ")[0] in WORKERS

    @property
    def taking(self) -> bool:
        """Whether it may be given requests."""
        return self.ready and self.staying and self.credits > 0 and not self.early

    def hold(self, request: Claimed) -> None:
        """Records that it has been given this request."""
        if request.rid in self.held:
            self._again[request.rid] = self._again.get(request.rid, 0) + 1
        self.held[request.rid] = request

    def report(self, credits: int, settled: Iterable[bytes]) -> None:
        """Takes a report: the number of further free slots, and the settled rids."""
        self.credits += credits
        for rid in settled:
            self.settle(rid)

    def settle(self, rid: bytes) -> None:
        """Takes a report that a request is settled. A retry may be claimed again, and be given to
        the same worker, before the report of the first attempt arrives."""
        again = self._again.pop(rid, 0)
        if again == 0:
            self.held.pop(rid, None)
        elif again > 1:
            self._again[rid] = again - 1

    def relieve(self, rids: Collection[bytes]) -> list[GivenBack]:
        """Leaves the child these requests. Returns the others as ``requests_to_release`` does."""
        self.relieved = True
        others = [held.given_back() for rid, held in self.held.items() if rid not in rids]
        self.held = {rid: held for rid, held in self.held.items() if rid in rids}
        self._again.clear()
        return others

    def requests_to_release(self, blamed: Collection[bytes]) -> list[GivenBack]:
        """After its death: the requests that it held, with their penalties."""
        return [one.given_back(int(rid in blamed)) for rid, one in self.held.items()]

    def signal(self, number: int) -> None:
        """Sends a signal; the child is ours and not reaped yet, so the pid cannot be another's."""
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            if CAN_ADOPT:
                raise

    def kill(self) -> None:
        """Ends the child at once, as if it had been asked to end."""
        if self.retiring_since is None:
            self.retiring_since = time.monotonic()
        self.dismissed = True
        self.signal(signal.SIGKILL)

    def forget(self) -> None:
        """Frees the master's resources for the child."""
        self.channel.close()
        if self._marks:
            self._marks.give_back(self._place)


class Succession(BaseException):
    """Raised in a fork of a child, which goes on as another child of ``parent``. It takes the place
    of a call: each template is forked from the one before, and their stacks would add up."""

    def __init__(self, role: str, parent: int, main: Callable[[], None]) -> None:
        super().__init__(role)
        self.child = role, parent, main


def become_child(role: str, parent: int, main: Callable[[], None]) -> NoReturn:
    """Runs in a freshly forked process: calls ``main`` as a child of ``parent``, then exits. So do
    its forks that raise Succession."""
    while True:
        status, ended = 1, True
        try:
            _settle_in(parent)
            main()
            status = 0
        except Succession as succession:
            ended = False
            role, parent, main = succession.child
        except CrawlframeError as error:
            log.error("%s %d failed: %s", role, os.getpid(), error)
        except BaseException:
            log.exception("%s %d failed", role, os.getpid())
        finally:
            if ended:
                _exit(status)


def _settle_in(parent: int) -> None:
    """The first steps of a child."""
    # The terminal's Ctrl-C and a supervisor's SIGTERM reach the whole group; the master decides.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    _die_with(parent)
    _reseed()


def _exit(status: int) -> NoReturn:
    # No atexit handlers and no destructors: inherited objects belong to the master.
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:  # their readers may have gone
        os._exit(status)


def adopt_orphans(adopt: bool = True) -> None:
    """Makes descendants whose parent ends children of this process, or no longer (Linux)."""
    _prctl(PR_SET_CHILD_SUBREAPER, int(adopt))


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _die_with(parent: int) -> None:
    """On systems other than Linux, a process forked by a template is not the master's child; the
    end of its channel shows it that the master has gone."""
    if not CAN_ADOPT:
        return
    give_up = time.monotonic() + ADOPT_SECONDS
    while os.getppid() != parent and os.getppid() != 1 and time.monotonic() < give_up:
        time.sleep(0.0005)  # the process in between has not ended yet
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before prctl was called
        os._exit(1)


def _reseed() -> None:
    random.seed()
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
