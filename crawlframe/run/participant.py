"""Participant: a feature that takes part in the commit of outcomes.

The unique rid decides which run of a request counts. Rows that a participant writes within the
transaction count exactly once, all or none. Everything else may be repeated: a commit that fails is
tried again from the beginning, and a request whose worker died after the commit runs again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, ClassVar

from crawlframe.errors import CrawlframeError
from crawlframe.run.ledger import LedgerRefused, Recorded
from crawlframe.run.outcome import Outcome

log = logging.getLogger(__name__)


class Participant:
    """A feature. The commit thread makes all calls, with at least one outcome that concerns the
    participant, in the order in which outcomes were handed over. A participant defines the calls
    that it needs; the others cost nothing.

    ``takes``: attributes of outcomes. An outcome in which none of them has a value does not concern
    the participant."""

    takes: ClassVar[tuple[str, ...]] = ()

    def concerned(self, outcomes: list[Outcome]) -> list[Outcome]:
        """The outcomes with a value in ``takes`` that concern the participant."""
        return outcomes

    def prepare(self, outcomes: list[Outcome]) -> None:
        """Before the transaction. May change the outcomes; a repeated call changes nothing more."""

    def write(self, outcomes: list[Outcome]) -> None:
        """Within the transaction, after the rows: outcomes whose rows this run has written."""

    def after(
        self, outcomes: list[Outcome], recorded: Mapping[bytes, Recorded]
    ) -> Collection[Outcome]:
        """After the commit, before the frontier learns of it. ``recorded``: the rows, by rid;
        outcomes that have none are given back. An outcome whose row is of another run concerns all
        participants. Returns outcomes of other requests that end by this."""
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
        self._preparing = _Takers(self._defining("prepare"))
        self._writing = _Takers(self._defining("write"))
        self._following = _Takers(self._defining("after"))
        self._explaining = _Takers(self._defining("explain"))
        self._ticking = self._defining("left")

    def prepare(self, outcomes: Sequence[Outcome]) -> None:
        for one, some in self._preparing.concerned(outcomes):
            with self._named(one, "prepare"):
                one.prepare(some)

    def writing(self, outcomes: Sequence[Outcome]) -> Writing:
        """The participants that have something to write, with their outcomes."""
        return [*self._writing.concerned(outcomes)]

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
        others = {rid for rid, row in recorded.items() if not row.new}
        for one, some in self._following.concerned(outcomes, others):
            try:
                with self._named(one, "after"):
                    ended += one.after(some, recorded)
            except ParticipantFailed as failed:
                log.error("after the commit of %d results: %s", len(some), failed, exc_info=failed)
        return ended

    def explain(self, outcomes: Sequence[Outcome]) -> None:
        for one, some in self._explaining.concerned(outcomes):
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


class _Takers:
    """The participants that define a call. Most outcomes have nothing that any of them takes, which
    one look shows."""

    def __init__(self, participants: Sequence[Participant]) -> None:
        self._participants = [(one, _values(one.takes)) for one in participants]
        self._values = _values([*{name for one in participants for name in one.takes}])

    def concerned(
        self, outcomes: Sequence[Outcome], always: Container[bytes] = ()
    ) -> Iterator[tuple[Participant, list[Outcome]]]:
        """``always``: rids of outcomes that concern all participants."""
        some = [o for o in outcomes if any(self._values(o)) or o.rid in always]
        for one, values in self._participants if some else ():
            mine = [o for o in some if any(values(o)) or o.rid in always]
            if mine and (mine := one.concerned(mine)):
                yield one, mine


def _values(names: Sequence[str]) -> Callable[[Outcome], tuple[Any, ...]]:
    """Returns the function that returns these attributes of an outcome."""
    # Of a single name, attrgetter returns no tuple.
    return attrgetter(*names, names[0]) if names else lambda outcome: ()
