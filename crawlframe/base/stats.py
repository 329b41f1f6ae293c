"""Stats: counters of spiders. The numbers are part of the outcome of a page and are committed with
its row, so a page that is fetched twice counts once."""

from __future__ import annotations

import math
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol

from crawlframe.base.limits import UNFOLLOWED
from crawlframe.errors import SpiderError

MAX_NAMES = 100  # per task
MAX_NAME = 100  # characters
MAX_VALUE = 2**53  # larger values are rounded by databases and JSON readers
DROPPED = "dropped/"  # precedes the reasons for which pipelines dropped items
OTHER = DROPPED + "other"  # used when there are too many reasons
MAX_REASONS = 50  # that a worker distinguishes

Number = int | float


@dataclass(slots=True)
class PageStats:
    """The counts of one run of a callback."""

    counters: dict[str, int] = field(default_factory=dict)
    maxima: dict[str, Number] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.counters or self.maxima)

    def inc(self, name: str, n: int) -> None:
        self.counters[name] = self.counters.get(name, 0) + n

    def max(self, name: str, value: Number) -> None:
        self.maxima[name] = max(value, self.maxima.get(name, value))


class Counted(Protocol):
    """The results of a callback, as seen by stats: CallbackResults of an Outcome."""

    stats: PageStats | None
    unfit: bool


class Counting(Protocol):
    """The running work, as seen by stats and logs: an Outcome."""

    task: int
    rid: bytes
    url: str

    @property
    def results(self) -> Counted: ...


# The request whose callback runs in this context; None while a worker opens a task.
RUNNING: ContextVar[Counting | None] = ContextVar("running")
# The task that a worker opens in this context.
OPENING: ContextVar[int] = ContextVar("opening", default=0)


class Owner(Protocol):
    """A spider: the number of its task, 0 outside of a worker."""

    _task: int


class Stats:
    """``self.stats`` of a spider: counters and maxima, summed over all workers.

    Counts of a callback are committed when it ends, together with its items; counts of a callback
    that raises, or of a page that another worker committed first, are dropped with the items."""

    def __init__(self, owner: Owner) -> None:
        """Outside of a worker, the counts are kept here."""
        self._owner = owner
        self._own = PageStats()
        self._names: set[tuple[str, str]] = set()

    def inc(self, name: str, n: int = 1) -> None:
        """Adds to a counter. Raises SpiderError when the name is not a text of 1 to 100 characters,
        n is not an int, the task has more than 100 names, or no callback is running."""
        if type(n) is not int or abs(n) > MAX_VALUE:
            raise SpiderError(f"self.stats.inc({name!r}): n must be an int, not {n!r}")
        self._page("inc", name).inc(name, n)

    def max(self, name: str, value: Number) -> None:
        """Keeps the largest value, an int or float. Raises SpiderError as ``inc`` does."""
        if type(value) not in (int, float) or not math.isfinite(value) or abs(value) > MAX_VALUE:
            raise SpiderError(f"self.stats.max({name!r}): {value!r} is not a finite int or float")
        self._page("max", name).max(name, value)

    @property
    def counters(self) -> dict[str, int]:
        """The counts of ``inc`` in the callback that runs now; outside of a worker, all of them."""
        return dict(self._current("counters").counters)

    @property
    def maxima(self) -> dict[str, Number]:
        """The values of ``max`` in the callback that runs now; outside of a worker, all of them."""
        return dict(self._current("maxima").maxima)

    def _page(self, method: str, name: str) -> PageStats:
        if (method, name) not in self._names:
            self._check(method, name)
            self._names.add((method, name))
        return self._current(f"{method}({name!r})")

    def _current(self, what: str) -> PageStats:
        try:
            counting = RUNNING.get()
        except LookupError:
            counting = None
            if not self._owner._task:
                return self._own
        if counting is None:
            raise SpiderError(
                f"self.stats.{what}: no callback runs here; count in callbacks and pipelines, "
                "in threads only through asyncio.to_thread"
            )
        results = counting.results
        if results.stats is None:
            results.stats = PageStats()
        return results.stats

    def _check(self, method: str, name: str) -> None:
        if type(name) is not str or not 0 < len(name) <= MAX_NAME:
            problem = f"the name must be a text of 1 to {MAX_NAME} characters"
        elif name.startswith(DROPPED):
            problem = f"names that begin with {DROPPED!r} count dropped items; use another one"
        elif name.startswith(UNFOLLOWED):
            problem = f"names that begin with {UNFOLLOWED!r} count links that were not followed; "
            problem += "use another one"
        elif len(self._names) >= MAX_NAMES:
            problem = f"the task has {MAX_NAMES} names already; names are for kinds of things, not "
            problem += "for single ones"
        else:
            return
        raise SpiderError(f"self.stats.{method}({name!r}): {problem}")
