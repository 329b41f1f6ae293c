"""Ledger: what the engine asks of the database that holds the truth.

crawlservice/ledger/store.py is the ledger over Django's models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from crawlframe.errors import CrawlframeError
from crawlframe.frontier.records import Counts
from crawlframe.outcome import Outcome
from crawlframe.request import Admission
from crawlframe.task_life import Summary


class LedgerAway(CrawlframeError):
    """The database cannot be reached or does not take writes now; try the same call later."""


class LedgerRefused(CrawlframeError):
    """The database will never take these rows."""


class TaskSpec(NamedTuple):
    """A task as the worker needs it."""

    task: int
    spider: str
    arguments: dict[str, Any]
    priority: int


class Recorded(NamedTuple):
    """The ledger row that counts for a request: of this run, or of an earlier one that won."""

    failed: bool
    follow_ups: list[Admission]
    items: int
    cancelled: bool = False
    closes: bool = False  # this run has closed its task


class Ledger(Protocol):
    """One connection to the database, used by one thread. Raises LedgerAway and LedgerRefused."""

    @property
    def waits(self) -> str:
        """What its thread has waited for, for long, such as an answer; "" when it does not wait.
        Any thread may ask."""

    def task(self, task: int) -> TaskSpec | None:
        """The task, or None when there is none."""

    def summary(self, task: int, counts: Counts) -> Summary | None:
        """How a task ends of which nothing is left but its last request; None when there is none.
        ``counts`` are those of the frontier."""

    def commit(self, outcomes: list[Outcome]) -> dict[bytes, Recorded]:
        """Ledger rows, items and follow-ups in one transaction; the first row of a rid wins.
        Answers for every outcome what the ledger now holds. Doing it again changes nothing."""

    def finish(self, tasks: Mapping[int, Counts]) -> set[int]:
        """Marks tasks ended, each once, if the ledger has a row for each of its admitted requests,
        or the task is cancelled and only rows of cancelled requests are missing. Answers which of
        them are ended now, by us or by another."""

    def close(self) -> None:
        """Gives the connection back."""
