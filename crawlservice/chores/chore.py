"""Chore: work that the stewards do by the clock. A feature registers its own (registry.py); the
steward knows none of them by name."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

from django.utils.module_loading import import_string

from crawlframe.conf import Settings
from crawlframe.frontier import Counts, Frontier
from crawlservice.connections.presence import Rows

# Each has a module ``chores`` with CHORES. In the order of a round: the needs of the leading
# steward first, then the tasks, whose counts others use.
FEATURES = (
    "steward",
    "tasks",
    "hosts",
    "proxies",
    "scheduling",
    "watches",
    "webhooks",
    "cases",
    "alerts",
    "exports",
    "databases",
    "ledger",
    "pages",
)


def chores() -> list[Chore]:
    """All of them."""
    found: list[Chore] = []
    for feature in FEATURES:
        found += import_string(f"crawlservice.{feature}.chores.CHORES")
    return found


@dataclass
class ChoreContext:
    """The steward as chores see it. ``still_here`` is to be called repeatedly in a long round.
    ``send`` sends a message to the supervisor of the node. ``counts``: by active task, as the chore
    of tasks last read them from the frontier. ``last_whole``: the end of the last round in which no
    needed chore failed, by time.monotonic()."""

    settings: Settings
    frontier: Frontier
    still_here: Callable[[], None]
    send: Callable[[Any], None]
    counts: Mapping[int, Counts | None] = field(default_factory=dict)
    last_whole: float = field(default_factory=time.monotonic)


class Ticks(Protocol):
    """The work of a chore, made once in a steward."""

    def tick(self) -> object:
        """One round, a few seconds at most. May raise anything."""


@runtime_checkable
class Stops(Protocol):
    """Work that holds something, such as threads."""

    def stop(self) -> None:
        """Called when the steward ends."""


class Calls(NamedTuple):
    """Work that is one function."""

    tick: Callable[[], object]


@dataclass(frozen=True)
class Chore:
    """``start`` makes the work. ``period``: seconds between two rounds; 0: it is done in every
    round of the steward, which is once a second."""

    name: str
    start: Callable[[ChoreContext], Ticks]
    period: float = 0.0
    # The leading steward does it, if it is not to be done on every node.
    everywhere: bool = False
    # If it fails, the leader's other chores are not done in that round …
    needed: bool = False
    # … but these.
    independent: bool = False
    # The work is recreated whenever the steward becomes the leader.
    each_term: bool = False
    # Rows without which there is nothing to do. One query asks for the rows of all chores.
    used: Rows | None = None


class Job:
    """A chore in one steward."""

    def __init__(self, chore: Chore) -> None:
        self.chore = chore
        self._work: Ticks | None = None
        self._next = 0.0
        self._used = True

    def work(self, context: ChoreContext) -> Ticks:
        """The work, which is made when it is needed first."""
        if self._work is None:
            self._work = self.chore.start(context)
        return self._work

    def run(self, context: ChoreContext, used: bool = True) -> None:
        """Does a round, if it is time. A chore that is used no more gets one further round, to
        remove its traces elsewhere. May raise anything."""
        now, before = time.monotonic(), self._used
        if now < self._next or not (used or before):
            return
        self._next, self._used = now + self.chore.period, True
        self.work(context).tick()
        self._used = used

    def begin_term(self) -> None:
        """Called when the steward becomes the leader."""
        self._next, self._used = 0.0, True
        if self.chore.each_term:
            self.stop()
            self._work = None

    def stop(self) -> None:
        """Releases the resources of the work; its knowledge stays."""
        if isinstance(self._work, Stops):
            self._work.stop()
