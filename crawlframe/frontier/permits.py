"""Permits: fetches of a host outside of the queue."""

from __future__ import annotations

from typing import NamedTuple

from crawlframe.frontier.client.records import NO_SIGNAL, Signal
from crawlframe.frontier.client.rows import StorePart

NOBODY = 0  # in place of a generation


class Permit(NamedTuple):
    """The answer for a fetch. ``given``: whether it may start ``wait`` milliseconds from now;
    otherwise ``wait`` says when to ask again. ``ended``: the task is over."""

    given: bool
    wait: int
    ended: bool = False


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
        *,
        own: bool = False,
        address: str = "",
    ) -> Permit:
        """Asks for a permit. ``token`` names the fetch. ``lasts``: milliseconds for which the
        permit is kept. ``patience``: the longest wait, in milliseconds, of a permit. ``own``: a
        request of this generation holds a slot of the host, and the fetch uses that. Until a permit
        is given, the next free slot of the host is kept for the token, if it asks again within
        three seconds. ``address``: of the host, for a task that limits requests per address."""
        asked = (generation, task, host, token, lasts, patience, int(own), address)
        given, wait = self._run(host, *asked)
        return Permit(given == 1, wait, given < 0)

    def ask_apart(
        self, host: str, token: bytes, lasts: int, patience: int, delay: int, concurrency: int
    ) -> Permit:
        """Asks for a fetch that belongs to no task and no node, with a delay in milliseconds of its
        own. Limits of the host by robots.txt and operators count, too."""
        given, wait = self._run(
            host, NOBODY, "", host, token, lasts, patience, 0, "", delay, concurrency
        )
        return Permit(given == 1, wait)

    def end_apart(self, host: str, token: bytes) -> None:
        """Ends a permit of ``ask_apart``."""
        self._run(host, NOBODY, "", host, token, 0, NO_SIGNAL.kind, NO_SIGNAL.ms, "")

    def end(self, generation: int, task: int, host: str, token: bytes, signal: Signal) -> None:
        """Ends a permit with the fetch's signal about its host."""
        self._run(host, generation, task, host, token, 0, signal.kind, signal.ms, "")

    def _run(self, host: str, *arguments: object) -> tuple[int, int]:
        given, wait = self._store.run("permit", self._store.partition_of(host), *arguments)
        return given, wait
