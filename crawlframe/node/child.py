"""Child: the master's view of one forked process, and the fork itself."""

from __future__ import annotations

import ctypes
import logging
import mmap
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from typing import NoReturn

from crawlframe.errors import CrawlframeError
from crawlframe.frontier import Claimed
from crawlframe.node.channel import Channel

log = logging.getLogger(__name__)

PR_SET_PDEATHSIG = 1
MARK_SIZE = 16  # bytes of the shared mark: the rid whose callback holds the processor
NO_MARK = bytes(MARK_SIZE)


class Child:
    """One worker or steward. ``held`` are the requests it has been given and not settled."""

    def __init__(self, role: str, pid: int, channel: Channel, mark: mmap.mmap) -> None:
        self.role = role
        self.pid = pid
        self.channel = channel
        self.held: dict[bytes, Claimed] = {}
        self._again: dict[bytes, int] = {}  # rid -> times it came back before it was settled
        self.credits = 0
        self.ready = False
        self.retiring_since: float | None = None
        self.born = self.last_beat = time.monotonic()
        self.rss = 0  # bytes
        self._mark = mark

    @classmethod
    def spawn(cls, role: str, main: Callable[[Channel, mmap.mmap], None]) -> Child:
        """Forks. The child runs ``main`` with its end of the channel and the mark, and exits."""
        ours, theirs = Channel.pair()
        mark = mmap.mmap(-1, MARK_SIZE)
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            ours.close()
            _become_child(role, parent, lambda: main(theirs, mark))
        theirs.close()
        return cls(role, pid, ours, mark)

    @property
    def taking(self) -> bool:
        """May it be given requests?"""
        return self.ready and self.retiring_since is None and self.credits > 0

    def hold(self, request: Claimed) -> None:
        """It has been given this request."""
        if request.rid in self.held:
            self._again[request.rid] = self._again.get(request.rid, 0) + 1
        self.held[request.rid] = request

    def settle(self, rid: bytes) -> None:
        """It says that it has done with this request. A retry may be claimed again, and be given to
        the same worker, before that word of the first try arrives."""
        again = self._again.pop(rid, 0)
        if again == 0:
            self.held.pop(rid, None)
        elif again > 1:
            self._again[rid] = again - 1

    def culprit(self) -> bytes | None:
        """After its death: the rid whose callback was running, or None if none was."""
        mark = bytes(self._mark[:MARK_SIZE])
        return None if mark == NO_MARK else mark

    def signal(self, number: int) -> None:
        """Sends a signal; the child is ours and not reaped yet, so the pid cannot be another's."""
        os.kill(self.pid, number)

    def forget(self) -> None:
        """Frees what the master kept for it."""
        self.channel.close()
        self._mark.close()


def _become_child(role: str, parent: int, main: Callable[[], None]) -> NoReturn:
    status = 1
    try:
        # The terminal's Ctrl-C and a supervisor's TERM reach the whole group; the master decides.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        _die_with(parent)
        random.seed()
        main()
        status = 0
    except CrawlframeError as error:
        log.error("%s %d failed: %s", role, os.getpid(), error)
    except BaseException:
        log.exception("%s %d failed", role, os.getpid())
    finally:
        # No atexit handlers and no destructors: what was inherited belongs to the master.
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:  # their readers may be gone
            os._exit(status)


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we asked
        os._exit(1)


def describe_exit(code: int) -> str:
    """An exit code as a person says it."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:  # a real-time signal
        return f"signal {-code}"
