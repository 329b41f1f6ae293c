"""DeferredCalls: what a master asks of Redis, which may be away for a while."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from redis import RedisError

from crawlframe.errors import Fenced
from crawlframe.frontier.wording import error_text

log = logging.getLogger(__name__)

T = TypeVar("T")


class DeferredCalls:
    """Runs verbs of the frontier and never raises for Redis being away.

    ``on_fenced`` is called when a verb is refused because the generation was declared dead."""

    def __init__(self, on_fenced: Callable[[], None]) -> None:
        self._on_fenced = on_fenced
        self._pending: list[Callable[[], object]] = []
        self.away = False

    def attempt(self, verb: Callable[[], T]) -> T | None:
        """The verb's answer; None while Redis is away or when the generation is dead."""
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
            log.info("claiming goes on")
        self.away = False
        return answer

    def enqueue(self, verb: Callable[[], object]) -> None:
        """Does a verb that must not be forgotten: now, or as soon as Redis is back."""
        self._pending.append(verb)
        if not self.away:  # a server that hangs costs a timeout for each question
            self.flush()

    def flush(self) -> None:
        """Does what is owed, in order, as far as Redis lets it."""
        while self._pending:
            self.attempt(self._pending[0])
            if self.away:
                return
            del self._pending[:1]

    @property
    def pending(self) -> bool:
        """Is anything owed?"""
        return bool(self._pending)

    def clear(self) -> None:
        """Drops what is owed: its generation is dead."""
        self._pending.clear()
