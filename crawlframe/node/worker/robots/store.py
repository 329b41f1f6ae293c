"""RobotsStore: the workers' shared knowledge of robots.txt and files like it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial

from redis import RedisError

from crawlframe.frontier import Frontier
from crawlframe.node.worker.commit.committer import Committer
from crawlframe.node.worker.pages.page_source import Batches
from crawlframe.node.worker.task.task_source import on_commit_thread
from crawlframe.robots.state import RobotsState
from crawlframe.run.ledger import Ledger, RobotsTurn

LEASE = 40.0  # seconds after which another worker may read a file, if the first one has died


class RobotsStore(ABC):
    """The states of files, by the origin of a robots.txt or the URL of another file, and the gates
    of their hosts."""

    @abstractmethod
    async def turn(self, origin: str) -> RobotsTurn:
        """Returns the state of a file. If it is due and unread, it is the caller's turn."""

    @abstractmethod
    async def keep(self, origin: str, lease: float) -> None:
        """As RobotsLedger.keep."""

    @abstractmethod
    async def save(self, origin: str, state: RobotsState) -> None:
        """As RobotsLedger.save."""

    @abstractmethod
    async def open(self, host: str, known_until: float, delay: float, now: float) -> bool:
        """Lets the requests of a host go that wait for its robots.txt, ``delay`` seconds apart.
        Returns whether they were held until now; the first of them goes after ``delay``."""

    @abstractmethod
    async def defer_for_robots(self, host: str, seconds: float, *, errand: bool = False) -> None:
        """Makes the requests of a host wait that obey its robots.txt, which cannot be read, or is
        read by a request on an ``errand``; with 0, no longer."""

    @abstractmethod
    async def forgotten(self) -> int | None:
        """A number that changes when the files must be read again; None: unknown."""


class StoredRobots(RobotsStore):
    """The database and Redis, on the connections of the commit thread. Questions about many files
    are one query."""

    def __init__(self, committer: Committer, frontier: Frontier, ledger: Ledger) -> None:
        self._committer = committer
        self._frontier = frontier
        self._ledger = ledger.robots
        self._turns = Batches(committer, partial(self._ledger.turns, lease=LEASE))
        self._saves = Batches(committer, self._save)

    async def turn(self, origin: str) -> RobotsTurn:
        return await self._turns.ask(origin)

    async def keep(self, origin: str, lease: float) -> None:
        await on_commit_thread(self._committer, lambda: self._ledger.keep(origin, lease))

    async def save(self, origin: str, state: RobotsState) -> None:
        await self._saves.ask((origin, state))

    async def open(self, host: str, known_until: float, delay: float, now: float) -> bool:
        hosts = self._frontier.hosts
        return await on_commit_thread(
            self._committer, lambda: hosts.open_robots(host, known_until, delay, now)
        )

    async def defer_for_robots(self, host: str, seconds: float, *, errand: bool = False) -> None:
        defer = partial(self._frontier.hosts.hold_robots, host, seconds, known=errand)
        await on_commit_thread(self._committer, defer)

    async def forgotten(self) -> int | None:
        def look() -> int | None:
            try:
                return self._frontier.hosts.robots_forgotten()
            except (RedisError, OSError):
                return None

        return await on_commit_thread(self._committer, look)

    def _save(self, states: list[tuple[str, RobotsState]]) -> list[None]:
        self._ledger.save(dict(states))
        return [None] * len(states)
