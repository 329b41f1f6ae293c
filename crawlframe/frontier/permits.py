"""Permits: fetches of a host outside of the queue."""

from __future__ import annotations

from typing import NamedTuple

from crawlframe.frontier.client.records import NO_SIGNAL, Signal
from crawlframe.frontier.client.rows import StorePart

NOBODY = 0  # in place of a generation
OVER, SENT = 0, -1  # in place of the time for which a permit is kept


class Permit(NamedTuple):
    """The answer for a fetch. ``given``: whether it may start ``wait`` milliseconds from now;
    otherwise ``wait`` says when to ask again. ``ended``: the task is over. ``spaced``: the delay of
    the host counts from when the fetch is sent, which is to be reported."""

    given: bool
    wait: int
    ended: bool = False
    spaced: bool = False


class Permits(StorePart):
    """A permit takes a slot of its host, and its delay counts, as if the fetch were a claim. It
    lapses by itself if the fetch does not say that it is over."""

    def ask(
        self,
        generation: int,
        task: int,
        host: str,
        token: bytes,
        lasts: int,
        patience: int,
        lender: bytes = b"",
        address: str = "",
    ) -> Permit:
        """Asks for a permit. ``token`` names the fetch. ``lasts``: milliseconds for which the
        permit is kept. ``patience``: the longest wait, in milliseconds, of a permit. ``lender``: a
        request of this generation that holds a slot of the host, which the fetch uses. Until a
        permit is given, the next free slot and time of the host are kept for the token, if it asks
        again within three seconds. ``address``: of the host, for a task that limits requests per
        address."""
        return self._ask(host, generation, task, host, token, lasts, patience, lender, address)

    def ask_apart(
        self, host: str, token: bytes, lasts: int, patience: int, delay: int, concurrency: int
    ) -> Permit:
        """Asks for a fetch that belongs to no task and no node, with a delay in milliseconds of its
        own. Limits of the host by robots.txt and operators count, too."""
        more = delay, concurrency
        return self._ask(host, NOBODY, "", host, token, lasts, patience, "", "", *more)

    def note_sent(
        self, host: str, token: bytes, ago: float = 0.0, generation: int = NOBODY
    ) -> None:
        """Reports that the fetch was sent so many milliseconds ago."""
        self._run(host, generation, "", host, token, SENT, NO_SIGNAL.kind, NO_SIGNAL.ms, ago)

    def end(
        self,
        generation: int,
        task: int,
        host: str,
        token: bytes,
        signal: Signal,
        ago: float = 0.0,
    ) -> None:
        """Ends a permit with the fetch's signal about its host. ``ago``: milliseconds since it was
        sent, or NEVER_SENT, if no report has arrived."""
        self._run(host, generation, task, host, token, OVER, signal.kind, signal.ms, ago)

    def end_apart(self, host: str, token: bytes, ago: float = 0.0) -> None:
        """Ends a permit of ``ask_apart``."""
        self._run(host, NOBODY, "", host, token, OVER, NO_SIGNAL.kind, NO_SIGNAL.ms, ago)

    def _ask(self, host: str, *arguments: object) -> Permit:
        given, wait, *spaced = self._run(host, *arguments)
        return Permit(given == 1, wait, given < 0, spaced == [1])

    def _run(self, host: str, *arguments: object) -> list[int]:
        answer: list[int] = self._store.run("permit", self._store.partition_of(host), *arguments)
        return answer
