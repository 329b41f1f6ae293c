"""Sender: sends the messages of an outbox to several receivers at the same time, one to each, so
that a receiver that hangs delays no other.

Stream: rows that go to one target in batches, in their order.

A batch is fenced where its position is kept: its sender names the position before it (exports), or
locks the target (rows of other databases). So it needs no lease: a new leader continues at once,
and of two senders one moves the position.
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from django.db import Error as DatabaseError

from crawlframe.errors import CrawlframeError
from crawlframe.run.ledger import LedgerAway
from crawlservice.chores.threads import Work
from crawlservice.outbox.outbox import Claim, Outbox

log = logging.getLogger(__name__)
IDLE_SECONDS = 1.0  # seconds between two looks when there is nothing to send
Message = TypeVar("Message")
Sending = asyncio.Task[tuple[str, dict[str, Any]]]


class Sender(Work, Generic[Message]):
    """The work of one thread. Django's database access blocks its loop meanwhile. ``at_a_time``:
    most receivers sent to at the same time."""

    at_a_time: ClassVar[int]

    def __init__(self, outbox: Outbox[Message]) -> None:
        self._outbox = outbox
        self._runner = asyncio.Runner()
        self._sending: dict[Sending, Claim] = {}

    @abstractmethod
    async def send(self, message: Message) -> tuple[str, dict[str, Any]]:
        """One attempt, shorter than the lease. Returns why it did not arrive, or "", and values of
        further columns. May raise anything."""

    async def end(self) -> None:
        """Releases the connections of ``send``."""

    def step(self) -> float:
        """Claims due messages, and settles sent ones. Returns the seconds after which to call it
        again. Raises django.db.Error."""
        busy = [claim.receiver for claim in self._sending.values()]
        loop = self._runner.get_loop()
        for claim, message in self._outbox.claim(busy, self.at_a_time - len(self._sending)):
            self._sending[loop.create_task(self._attempt(claim, message))] = claim
        if not self._sending:
            return IDLE_SECONDS
        self._settle(self._runner.run(_first(self._sending)))
        return 0.0

    def close(self) -> None:
        """Waits for messages in flight. Unsettled messages are sent again."""
        try:
            while self._sending:
                self._settle(self._runner.run(_first(self._sending)))
        finally:
            self._runner.run(self.end())
            self._runner.close()

    def _settle(self, done: set[Sending]) -> None:
        for task in done:
            problem, more = task.result()
            self._outbox.settle(self._sending[task], problem, **more)
            del self._sending[task]  # afterwards: without the database it is settled later

    async def _attempt(self, claim: Claim, message: Message) -> tuple[str, dict[str, Any]]:
        try:
            return await self.send(message)
        except Exception as error:
            # Without its text, which may repeat an address.
            log.error("%s failed: %s", claim, type(error).__name__)
            return f"{type(error).__name__}: see the log of the node", {}


async def _first(sending: dict[Sending, Claim]) -> set[Sending]:
    done, _ = await asyncio.wait(sending, timeout=IDLE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    return done


class OutboxThread(Work):
    """The work of one thread. ``name`` stands in messages."""

    name: str

    @abstractmethod
    def send_next(self) -> float | None:
        """Reads, and sends a batch if one is due. Returns the seconds after which to call it again,
        0 if there may be more at once, None if the stream has ended. Raises django.db.Error of the
        service's database, LedgerAway, and whatever the target raises."""

    @abstractmethod
    def settle_failure(self, error: Exception) -> tuple[str, float]:
        """Records why the target failed. Returns that as text without secrets, and the seconds
        after which to try again. Raises django.db.Error."""

    def step(self) -> float | None:
        """Calls ``send_next``, and records failures of the target. Raises django.db.Error of the
        service's database and LedgerAway: a batch may have been sent, and is sent again."""
        try:
            return self.send_next()
        except (DatabaseError, LedgerAway):
            self.close()
            raise
        except Exception as error:
            self.close()
            log.debug("%s", self.name, exc_info=not isinstance(error, CrawlframeError))
            problem, pause = self.settle_failure(error)
            log.warning("%s waits: %s", self.name, problem)
            return pause
