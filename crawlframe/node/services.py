"""Services: what a node needs from outside the engine; the composition root gives it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from crawlframe.code.registry import Registry
from crawlframe.frontier import Frontier
from crawlframe.ledger import Ledger
from crawlframe.node.code import Code
from crawlframe.node.messages import FromChildLine


class Services(Protocol):
    """Makers of connections and parts. Each call makes a new one, for the process that calls."""

    def frontier(self) -> Frontier:
        """A frontier on a connection of its own. Raises FrontierError."""

    def ledger(self) -> Ledger:
        """A ledger on a connection of its own. Raises LedgerAway."""

    def code(self) -> Code:
        """Where the code of this node lies."""

    def registry(
        self, skip: Mapping[str, str], limit: float, loading: Callable[[str], None]
    ) -> Registry:
        """Imports the spiders, as Registry.load does. Leaves no connection open."""

    def check_installation(self, frontier: Frontier) -> None:
        """Raises FrontierError when Redis belongs to another database than the one this node uses,
        and LedgerAway. Leaves no connection open."""

    def missing(self, frontier: Frontier) -> str:
        """What the database has recorded and Redis does not know, in words; "" when nothing is
        missing. Asked before a life begins, it looks only if no node lives that would have noticed.
        Leaves no connection open. Raises FrontierError, LedgerAway and redis.RedisError."""

    def begin_generation(
        self, node: str, machine: str, pid: int, beside: Collection[int] = ()
    ) -> int:
        """Returns a number never used before. Earlier lives of the node are replaced, except those
        of the processes ``beside`` on this machine. Leaves no connection open. Raises
        LedgerAway."""

    def end_generation(self, generation: int) -> None:
        """The life ends because its node was told to stop. Leaves no connection open. Raises
        LedgerAway."""

    def lose_generation(self, generation: int, held: int) -> None:
        """The life of another node was found dead; the requests that it held are given back. Leaves
        no connection open. Raises LedgerAway."""

    def replay(self, frontier: Frontier, generation: int) -> int:
        """Declares a generation dead: what it had recorded and not told is completed, the rest is
        given back. Returns how many were given back. Leaves no connection open. Raises
        FrontierError, LedgerAway and redis.RedisError."""

    def run_steward(self, channel: FromChildLine) -> None:
        """Does the steward's chores until the channel ends or says stop."""
