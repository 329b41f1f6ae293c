"""RobotsStore: the workers' shared knowledge of robots.txt and files like it."""

from __future__ import annotations

from functools import partial

from redis import RedisError

from crawlframe.node.worker.commit.stores import Batches, Stores
from crawlframe.robots.state import RobotsState
from crawlframe.run.ledger import RobotsTurn

LEASE = 40.0  # seconds after which another worker may read a file, if the first one has died


class RobotsStore:
    """The states of files, by the origin of a robots.txt or the URL of another file, and the gates
    of their hosts. Questions about many files are one query."""

    def __init__(self, stores: Stores) -> None:
        self._ask = stores.ask
        self._hosts = stores.frontier.hosts
        self._ledger = stores.ledger.robots
        self._turns = Batches(stores, partial(self._ledger.turns, lease=LEASE))
        self._saves = Batches(stores, self._save)

    async def turn(self, origin: str) -> RobotsTurn:
        """Returns the state of a file. If it is due and unread, it is the caller's turn."""
        return await self._turns.ask(origin)

    async def keep(self, origin: str, lease: float) -> None:
        """As RobotsLedger.keep."""
        await self._ask(lambda: self._ledger.keep(origin, lease))

    async def save(self, origin: str, state: RobotsState) -> None:
        """As RobotsLedger.save."""
        await self._saves.ask((origin, state))

    async def open(self, host: str, known_until: float, delay: float, now: float) -> bool:
        """Lets the requests of a host go that wait for its robots.txt, ``delay`` seconds apart.
        Returns whether they were held until now; the first of them goes after ``delay``."""
        return await self._ask(lambda: self._hosts.open_robots(host, known_until, delay, now))

    async def defer_for_robots(self, host: str, seconds: float, *, errand: bool = False) -> None:
        """Makes the requests of a host wait that obey its robots.txt, which cannot be read, or is
        read by a request on an ``errand``; with 0, no longer."""
        await self._ask(partial(self._hosts.hold_robots, host, seconds, known=errand))

    async def forgotten(self) -> int | None:
        """A number that changes when the files must be read again; None: unknown."""

        def look() -> int | None:
            try:
                return self._hosts.robots_forgotten()
            except (RedisError, OSError):
                return None

        return await self._ask(look)

    def _save(self, states: list[tuple[str, RobotsState]]) -> list[None]:
        self._ledger.save(dict(states))
        return [None] * len(states)
