"""Participant: a feature that takes part in the commit of outcomes.

The unique rid decides which run of a request counts. Rows that a participant writes within the
transaction count exactly once, all or none. Everything else may be repeated: a commit that fails is
tried again from the beginning, and a request whose worker died after the commit runs again."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from crawlframe.errors import CrawlframeError
from crawlframe.run.ledger import LedgerRefused, Recorded
from crawlframe.run.outcome import Outcome

log = logging.getLogger(__name__)


class Participant:
    """One feature. The commit thread makes all calls, with at least one outcome that concerns the
    participant, in the order in which outcomes were handed over. A participant defines the calls
    that it needs; the others cost nothing."""

    def concerned(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """The outcomes that the participant takes, in their order."""
        raise NotImplementedError

    def prepare(self, outcomes: list[Outcome]) -> None:
        """Before the transaction. May change the outcomes; a repeated call changes nothing more."""

    def write(self, outcomes: list[Outcome]) -> None:
        """Within the transaction, after the rows: outcomes whose rows this run has written."""

    def after(
        self, outcomes: list[Outcome], recorded: Mapping[bytes, Recorded]
    ) -> Collection[Outcome]:
        """After the commit, before the frontier learns of it. ``recorded``: the rows, by rid;
        outcomes that have none are given back. Returns outcomes of other requests that end by
        this."""
        return ()

    def explain(self, outcomes: list[Outcome]) -> None:
        """The database has refused a batch with these outcomes, and the transaction is over. Raises
        a more precise error if the participant knows one."""

    def left(self) -> float | None:
        """Seconds until ``tick`` has something to do; None: nothing."""
        return None

    def tick(self) -> None:
        """Finishes work that must not stay open for long. Raises nothing."""

    def close(self) -> None:
        """The commit thread ends. Raises nothing."""


Writing = list[tuple[Participant, list[Outcome]]]


class ParticipantFailed(LedgerRefused):
    """A participant has raised an error that it does not document."""


class Participants:
    """Participants of a commit. Their order is the order of all calls. ``documented``: errors that
    their calls may raise, besides CrawlframeError and OSError. Any other one is a defect: it
    refuses the outcomes with ParticipantFailed, so that other outcomes do not wait for them."""

    def __init__(
        self,
        participants: Sequence[Participant],
        documented: tuple[type[Exception], ...] = (),
    ) -> None:
        self._all = tuple(participants)
        self._documented: tuple[type[Exception], ...] = (CrawlframeError, OSError, *documented)
        self._preparing = self._defining("prepare")
        self._writing = self._defining("write")
        self._following = self._defining("after")
        self._explaining = self._defining("explain")
        self._ticking = self._defining("left")

    def prepare(self, outcomes: Sequence[Outcome]) -> None:
        for one, some in _concerned(self._preparing, outcomes):
            with self._named(one, "prepare"):
                one.prepare(some)

    def writing(self, outcomes: Sequence[Outcome]) -> Writing:
        """The participants that have something to write, with their outcomes."""
        return [*_concerned(self._writing, outcomes)]

    def write(self, writing: Writing, new: Collection[bytes]) -> None:
        """``new``: the rids of rows that the transaction has written."""
        for one, some in writing:
            if mine := [outcome for outcome in some if outcome.rid in new]:
                with self._named(one, "write"):
                    one.write(mine)

    def after(
        self, outcomes: Sequence[Outcome], recorded: Mapping[bytes, Recorded]
    ) -> list[Outcome]:
        """Returns the outcomes that the calls return. A defect is logged: the rows count."""
        ended: list[Outcome] = []
        for one, some in _concerned(self._following, outcomes):
            try:
                with self._named(one, "after"):
                    ended += one.after(some, recorded)
            except ParticipantFailed as failed:
                log.error("after the commit of %d results: %s", len(some), failed, exc_info=failed)
        return ended

    def explain(self, outcomes: Sequence[Outcome]) -> None:
        for one, some in _concerned(self._explaining, outcomes):
            one.explain(some)

    def left(self) -> float | None:
        """Seconds until ``tick`` has something to do; None: nothing."""
        lefts = [left for one in self._ticking if (left := one.left()) is not None]
        return min(lefts, default=None)

    def tick(self) -> None:
        for one in self._ticking:
            if one.left() == 0:
                one.tick()

    def close(self) -> None:
        for one in self._all:
            one.close()

    @contextmanager
    def _named(self, participant: Participant, call: str) -> Iterator[None]:
        try:
            yield
        except self._documented:
            raise
        except Exception as error:
            name = f"{type(participant).__name__}.{call}"
            raise ParticipantFailed(f"{name}: {type(error).__name__}: {error}") from error

    def _defining(self, name: str) -> tuple[Participant, ...]:
        base = getattr(Participant, name)
        return tuple(one for one in self._all if getattr(type(one), name) is not base)


def _concerned(
    participants: Sequence[Participant], outcomes: Sequence[Outcome]
) -> Iterator[tuple[Participant, list[Outcome]]]:
    for one in participants:
        if some := one.concerned(outcomes):
            yield one, some
