"""Reservations: which request fetches a page that several want: tasks, or redirects of one task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from crawlframe.base.urls import host_of
from crawlframe.frontier.client.partitions import pack
from crawlframe.frontier.client.records import fingerprints
from crawlframe.frontier.client.rows import StorePart

FINISHED, LEFT = 0, -1  # in place of the milliseconds of a Target


class PageReservation(NamedTuple):
    """``key``: of the page. ``host``: of its URL. ``lasts``: milliseconds; 0 ends it."""

    key: bytes
    host: str
    rid: bytes
    lasts: int = 0


class Target(NamedTuple):
    """The URL to which a request was redirected. ``target``: the rid that a link to it has.
    ``lasts``: milliseconds for which it is reserved; FINISHED: the request has a row that says so;
    LEFT: it ends otherwise. ``left``: the target before, from which it was redirected again."""

    task: int
    rid: bytes
    target: bytes
    url: str
    lasts: int = FINISHED
    left: bytes = b""


class Reservations(StorePart):
    """Reservations of pages. They lapse, or are lost with Redis: a page may be fetched twice."""

    def take(self, wanted: Sequence[PageReservation]) -> dict[bytes, int]:
        """Reserves pages, or ends reservations. Returns, by rid, for how many milliseconds another
        request has had its page; 0: it has it itself."""
        held: dict[bytes, int] = {}
        for partition, some in self._store.split_small(wanted, lambda one: one.host):
            entries = pack([[one.key.hex(), one.rid, one.lasts] for one in some])
            answers = self._store.run("reserve", partition, entries)
            held |= {one.rid: ms for one, ms in zip(some, answers, strict=True)}
        return held

    def follow(self, targets: Sequence[Target]) -> list[int]:
        """For each: 0 if the request may go there, and the target is reserved for it; -1 if the
        task has admitted it; otherwise for how many milliseconds another request has had it. A
        FINISHED one is admitted from now on: 1 if it waits as a request of its own, else 0."""
        found: dict[Target, int] = {}
        for partition, some in self._store.split_small(targets, lambda one: host_of(one.url)):
            marks = zip(some, *fingerprints([one.target for one in some]), strict=True)
            entries = [
                (str(one.task), one.rid, one.target, mark, number, one.lasts, one.left)
                for one, mark, number in marks
            ]
            answers = self._store.run("follow", partition, pack(entries))
            found |= zip(some, answers, strict=True)
        return [found[target] for target in targets]
