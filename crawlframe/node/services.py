"""Services: parts outside the engine that a node needs; supplied by the composition root."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from crawlframe.code.registry import Registry
from crawlframe.frontier import Frontier
from crawlframe.node.code import Code
from crawlframe.node.messages import FromChildLine
from crawlframe.run.ledger import Ledger


class Services(Protocol):
    """Factories of connections and parts. Each call makes a new one, for the calling process."""

    def frontier(self) -> Frontier:
        """A frontier on a connection of its own. Raises FrontierError."""

    def ledger(self) -> Ledger:
        """A ledger on a connection of its own. Raises LedgerAway."""

    def code(self) -> Code:
        """Where the code of this node is."""

    def registry(
        self, skip: Mapping[str, str], limit: float, loading: Callable[[str], None]
    ) -> Registry:
        """Imports the spiders, as Registry.load does. Leaves no connection open."""

    def renew(self, registry: Registry, limit: float, loading: Callable[[str], None]) -> None:
        """Brings what ``registry`` returned up to date, as Registry.renew does. Raises
        NotRenewable. Leaves no connection open."""

    def unfit(self) -> str:
        """Imports the modules that workers need besides the spiders. Returns why they cannot run,
        "" if they can. Leaves no connection open."""

    def with_pages(self, spiders: list[str] | None) -> list[str] | None:
        """Those of these spiders that have good kept pages. None stands for all spiders, and is
        returned if any page is kept. If the database does not answer within some seconds, none
        has. Leaves no connection open."""

    def run_checker(
        self, registry: Registry, version: str, channel: FromChildLine, line: socket.socket | None
    ) -> None:
        """Replays the recorded pages of spiders of ``registry`` that a message names, and sends
        their problems; or runs the trial of a kept page that a message names. With a ``line`` to
        the checker of another version, also kept pages are run, by both."""

    def check_installation(self, frontier: Frontier) -> None:
        """Raises FrontierError when Redis belongs to a different database than this node uses, and
        LedgerAway. Leaves no connection open."""

    def missing(self, frontier: Frontier) -> str:
        """Describes data that the database has recorded and Redis does not know; "" when nothing is
        missing. Before a life starts, it checks only if no node is alive that would have noticed.
        Leaves no connection open. Raises FrontierError, LedgerAway and redis.RedisError."""

    def begin_generation(
        self, node: str, machine: str, pid: int, beside: Collection[int] = ()
    ) -> int:
        """Returns a new generation number. Earlier lives of the node are replaced, except the
        processes ``beside`` on this machine. Leaves no connection open. Raises LedgerAway."""

    def end_generation(self, generation: int) -> None:
        """Records that the life ends because its node was asked to stop. Leaves no connection open.
        Raises LedgerAway."""

    def lose_generation(self, generation: int, held: int) -> None:
        """Records that another node's life was found dead and ``held`` requests are given back.
        Leaves no connection open. Raises LedgerAway."""

    def replay(self, frontier: Frontier, generation: int) -> int:
        """Declares a generation dead: requests with recorded results that Redis lacks are
        completed, the rest are given back. Returns how many were given back. Leaves no connection
        open. Raises FrontierError, LedgerAway and redis.RedisError."""

    def run_steward(self, channel: FromChildLine) -> None:
        """Does the steward's chores until the channel closes or a message asks it to stop."""
