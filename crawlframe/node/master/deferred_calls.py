"""DeferredCalls: a master's calls to Redis, which may be unavailable for a while."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from redis import RedisError

from crawlframe.errors import Fenced
from crawlframe.frontier.client.wording import error_text

log = logging.getLogger(__name__)

T = TypeVar("T")


class DeferredCalls:
    """Calls verbs of the frontier without raising when Redis is unavailable.

    ``on_fenced`` is called when a verb is refused because the generation was declared dead."""

    def __init__(self, on_fenced: Callable[[], None]) -> None:
        self._on_fenced = on_fenced
        self._pending: list[Callable[[], object]] = []
        self.away = False

    def attempt(self, verb: Callable[[], T]) -> T | None:
        """The verb's result; None while Redis is unavailable or when the generation is dead.
        Pending calls come first: one may have been made whose answer was lost, and repeated after a
        claim it would give back what that has brought."""
        self.flush()
        return None if self._pending else self._make(verb)

    def _make(self, verb: Callable[[], T]) -> T | None:
        try:
            answer = verb()
        except Fenced:
            self._on_fenced()
            return None
        except (RedisError, OSError) as error:
            if not self.away:
                log.warning("claiming waits: %s", error_text(error))
            self.away = True
            return None
        if self.away:
            log.info("claiming continues")
        self.away = False
        return answer

    def enqueue(self, verb: Callable[[], object]) -> None:
        """Calls a verb that must not be lost: now, or as soon as Redis is back."""
        self._pending.append(verb)
        if not self.away:  # a server that hangs costs a timeout for each call
            self.flush()

    def flush(self) -> None:
        """Makes the pending calls, in order, as far as Redis accepts them."""
        while self._pending:
            self._make(self._pending[0])
            if self.away:
                return
            del self._pending[:1]

    @property
    def pending(self) -> bool:
        """Whether any call is pending."""
        return bool(self._pending)

    def clear(self) -> None:
        """Drops the pending calls: their generation is dead."""
        self._pending.clear()
