"""StartParts: the results of ``start``, recorded in database and Redis as they come."""

from __future__ import annotations

from enum import Enum

from crawlframe.errors import FrontierError
from crawlframe.node.worker.commit.stores import Stores
from crawlframe.node.worker.fetch.replay import CacheReplay
from crawlframe.request.request import root_admission
from crawlframe.revisit.visit import Visit
from crawlframe.run.ledger import LedgerAway, LedgerRefused, StartPart
from crawlframe.run.link_filters import Sieve
from crawlframe.run.outcome import Verdict


class StartRoom(Enum):
    """Whether a start may continue."""

    GO = "go"
    WAIT = "wait"  # enough of its requests wait, or its task is paused
    CANCELLED = "cancelled"


class StartEnded(Exception):
    """The run ends here, and the root request with this verdict."""

    def __init__(self, verdict: Verdict, reason: str = "", detail: str = "") -> None:
        super().__init__(verdict, reason, detail)
        self.verdict, self.reason, self.detail = verdict, reason, detail


class StartParts:
    """The database first, then Redis, as for the follow-ups of any request."""

    def __init__(
        self, stores: Stores, sieve: Sieve, ahead: int, replay: CacheReplay | None = None
    ) -> None:
        """``ahead``: requests of a task that wait, above which its start pauses. ``replay``: the
        development cache, if it is used."""
        self._ask = stores.ask
        self._frontier = stores.frontier
        self._ledger = stores.ledger.starts
        self._sieve = sieve
        self._ahead = ahead
        self._replay = replay

    async def last(self, task: int) -> StartPart | None:
        """Returns the last recorded part of a task, whose requests are admitted then; None when
        there is none."""
        return await self._ask(lambda: self._last(task))

    def _last(self, task: int) -> StartPart | None:
        part = self._ledger.last(task)
        if part is not None:  # the run that wrote it may have died before it was admitted
            self._push(root_admission(task).host, part)
        return part

    async def record(self, host: str, part: StartPart, fingerprints: list[bytes]) -> StartPart:
        """Writes a part and admits its requests, if no other run has written one with its number.
        ``host``: of the root request; ``fingerprints``: of the follow-ups. Returns the part as it
        was written, without requests that the task knew. Raises StartEnded if another run is ahead,
        or the database refuses the part."""
        fitted: list[StartPart] = []  # once, although the job may be repeated

        def job() -> StartPart:
            if not fitted:
                fitted.append(self._without_known(part))
            if fitted[0].follow_ups:
                if not self._ledger.add(fitted[0]) or not self._push(host, fitted[0]):
                    raise StartEnded(Verdict.RELEASE)  # the next run continues from there
                self._sieve.add(part.task, fingerprints)
            return fitted[0]

        try:
            return await self._ask(job)
        except LedgerRefused as error:
            raise StartEnded(Verdict.ERROR, "refused", str(error)) from None

    async def found(self, task: int, visit: Visit) -> None:
        """Writes the pages that ``start`` has found so far, to be visited again. Raises StartEnded
        if the database refuses them."""
        try:
            await self._ask(lambda: self._ledger.add_found(task, visit))
        except LedgerRefused as error:
            raise StartEnded(Verdict.ERROR, "refused", str(error)) from None

    def _without_known(self, part: StartPart) -> StartPart:
        """The part without known requests, as Committer leaves them out of others."""
        (known,) = self._frontier.known([(part.task, part.follow_ups)])
        new = [link for link, old in zip(part.follow_ups, known, strict=True) if not old]
        dropped = len(part.follow_ups) - len(new)
        return part._replace(follow_ups=new, duplicates=part.duplicates + dropped)

    def _push(self, host: str, part: StartPart) -> bool:
        follow_ups = part.follow_ups
        if self._replay is not None:
            follow_ups = self._replay.place(follow_ups)
        try:
            return self._frontier.starts.push(part.rid, host, part.task, part.number, follow_ups)
        except FrontierError as error:  # Redis is being filled again
            raise LedgerAway(str(error)) from None

    async def room(self, task: int) -> StartRoom:
        """Returns whether a start may continue now."""
        return await self._ask(lambda: self._room(task))

    def _room(self, task: int) -> StartRoom:
        counts = self._frontier.counts(task)
        if counts is not None and counts.state == "cancelling":
            return StartRoom.CANCELLED
        if counts is None or counts.state != "running":
            return StartRoom.WAIT
        waiting = counts.nr - counts.in_progress - counts.parked
        return StartRoom.WAIT if waiting > self._ahead else StartRoom.GO
