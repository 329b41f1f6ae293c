"""StoredStarts: records the results of ``start`` in database and Redis, on the commit thread."""

from __future__ import annotations

from crawlframe.errors import FrontierError
from crawlframe.frontier import Frontier
from crawlframe.node.worker.commit.committer import Committer
from crawlframe.node.worker.fetch.replay import CacheReplay
from crawlframe.node.worker.start.start_run import StartEnded, StartParts, StartRoom
from crawlframe.node.worker.task.task_source import on_commit_thread
from crawlframe.request.request import root_admission
from crawlframe.revisit.visit import Visit
from crawlframe.run.ledger import Ledger, LedgerAway, LedgerRefused, StartPart
from crawlframe.run.link_filters import Sieve
from crawlframe.run.outcome import Verdict


class StoredStarts(StartParts):
    """Stored starts: the database first, then Redis, as for the follow-ups of any request."""

    def __init__(
        self,
        committer: Committer,
        frontier: Frontier,
        ledger: Ledger,
        sieve: Sieve,
        ahead: int,
        replay: CacheReplay | None = None,
    ) -> None:
        """``ahead``: requests of a task that wait, above which its start pauses. ``replay``: the
        development cache, if it is used."""
        self._committer = committer
        self._frontier = frontier
        self._ledger = ledger
        self._sieve = sieve
        self._ahead = ahead
        self._replay = replay

    async def last(self, task: int) -> StartPart | None:
        return await on_commit_thread(self._committer, lambda: self._last(task))

    def _last(self, task: int) -> StartPart | None:
        part = self._ledger.starts.last(task)
        if part is not None:  # the run that wrote it may have died before it was admitted
            self._push(root_admission(task).host, part)
        return part

    async def record(self, host: str, part: StartPart, fingerprints: list[bytes]) -> StartPart:
        fitted: list[StartPart] = []  # once, although the job may be repeated

        def job() -> StartPart:
            if not fitted:
                fitted.append(self._without_known(part))
            if fitted[0].follow_ups:
                if not self._ledger.starts.add(fitted[0]) or not self._push(host, fitted[0]):
                    raise StartEnded(Verdict.RELEASE)  # the next run continues from there
                self._sieve.add(part.task, fingerprints)
            return fitted[0]

        try:
            return await on_commit_thread(self._committer, job)
        except LedgerRefused as error:
            raise StartEnded(Verdict.ERROR, "refused", str(error)) from None

    async def found(self, task: int, visit: Visit) -> None:
        try:
            await on_commit_thread(
                self._committer, lambda: self._ledger.starts.add_found(task, visit)
            )
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
        return await on_commit_thread(self._committer, lambda: self._room(task))

    def _room(self, task: int) -> StartRoom:
        counts = self._frontier.counts(task)
        if counts is not None and counts.state == "cancelling":
            return StartRoom.CANCELLED
        if counts is None or counts.state != "running":
            return StartRoom.WAIT
        waiting = counts.nr - counts.in_progress - counts.parked
        return StartRoom.WAIT if waiting > self._ahead else StartRoom.GO
