"""Participants of a commit: the calls, their outcomes and order, and the effect of errors."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from crawlframe.run.ledger import LedgerAway, LedgerRefused, Recorded
from crawlframe.run.outcome import Outcome
from crawlframe.run.participant import Participant, ParticipantFailed, Participants

Calls = list[tuple[str, str, list[str]]]


class Noting(Participant):
    """Takes outcomes whose URL has its letter, and notes the calls. ``raises``: by call."""

    def __init__(self, letter: str, calls: Calls, raises: Mapping[str, Exception]) -> None:
        self.letter = letter
        self.calls = calls
        self.raises = raises

    takes = ("url",)

    def concerned(self, outcomes: list[Outcome]) -> list[Outcome]:
        return [o for o in outcomes if self.letter in o.url]

    def prepare(self, outcomes: list[Outcome]) -> None:
        self._note("prepare", outcomes)

    def write(self, outcomes: list[Outcome]) -> None:
        self._note("write", outcomes)

    def after(
        self, outcomes: list[Outcome], recorded: Mapping[bytes, Recorded]
    ) -> Collection[Outcome]:
        self._note("after", outcomes)
        return outcomes[:1]

    def _note(self, call: str, outcomes: list[Outcome]) -> None:
        self.calls.append((self.letter, call, [outcome.url for outcome in outcomes]))
        if call in self.raises:
            raise self.raises[call]


class Silent(Participant):
    """Defines no call, and is not even asked."""


def outcomes(*urls: str) -> list[Outcome]:
    return [Outcome(url.encode(), 1, "h", b"", 0, 0, url=url) for url in urls]


def called(*names: str, **raises: Exception) -> tuple[Calls, Participants]:
    calls: Calls = []
    some: list[Participant] = [Silent(), *(Noting(name, calls, raises) for name in names)]
    return calls, Participants(some, documented=(ZeroDivisionError,))


def commit(participants: Participants, batch: list[Outcome], new: Collection[bytes]) -> Any:
    """Commits as a ledger does; returns the outcomes that end by it."""
    participants.prepare(batch)
    participants.write(participants.writing(batch), new)
    return participants.after(batch, {})


def test_each_takes_the_outcomes_that_concern_it_in_the_order_of_the_list() -> None:
    calls, participants = called("b", "a")
    batch = outcomes("ab", "b", "c", "a")
    ended = commit(participants, batch, {b"ab", b"c", b"a"})
    assert calls == [
        ("b", "prepare", ["ab", "b"]),
        ("a", "prepare", ["ab", "a"]),
        ("b", "write", ["ab"]),  # the row of the other one is of another run
        ("a", "write", ["ab", "a"]),
        ("b", "after", ["ab", "b"]),
        ("a", "after", ["ab", "a"]),
    ]
    assert [one.url for one in ended] == ["ab", "ab"]


class Filing(Noting):
    takes = ("results.files",)


def test_a_page_that_has_nothing_for_a_participant_costs_no_call_and_no_transaction() -> None:
    calls: Calls = []
    participants = Participants([Filing("/", calls, {}), Noting("a", calls, {})])
    here, there = outcomes("/1", "/2")
    rows = {here.rid: Recorded(False, [], 0, new=True), there.rid: Recorded(False, [], 0)}
    assert participants.writing([here, there]) == []
    commit(participants, [here, there], rows)
    assert calls == []
    participants.after([here, there], rows)
    assert calls == [("/", "after", ["/2"])], "the row is of another run"


@pytest.mark.parametrize("call", ["prepare", "write"])
def test_a_defect_refuses_the_results_and_names_the_participant(call: str) -> None:
    _, participants = called("a", **{call: KeyError("price")})
    with pytest.raises(ParticipantFailed, match=rf"^Noting.{call}: KeyError: 'price'$") as failed:
        commit(participants, outcomes("a"), {b"a"})
    assert isinstance(failed.value, LedgerRefused)
    assert isinstance(failed.value.__cause__, KeyError)


@pytest.mark.parametrize("call", ["prepare", "write", "after"])
@pytest.mark.parametrize("error", [LedgerAway("away"), OSError("full"), ZeroDivisionError("known")])
def test_errors_that_are_documented_pass(call: str, error: Exception) -> None:
    _, participants = called("a", **{call: error})
    with pytest.raises(type(error), match=str(error)):
        commit(participants, outcomes("a"), {b"a"})


def test_a_defect_after_the_commit_is_logged_and_keeps_nobody_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls, participants = called("a", "b", after=KeyError("price"))
    with caplog.at_level(logging.ERROR):
        assert participants.after(outcomes("a", "b"), {}) == []
    assert [name for name, *_ in calls] == ["a", "b"]
    assert "after the commit of 1 results: Noting.after: KeyError: 'price'" in caplog.text


class Clock(Silent):
    """Has something to do in so many seconds."""

    def __init__(self, left: float | None) -> None:
        self._left = left
        self.ticks = self.closed = 0

    def left(self) -> float | None:
        return self._left

    def tick(self) -> None:
        self.ticks += 1

    def close(self) -> None:
        self.closed += 1


def test_who_is_due_gets_its_tick() -> None:
    some = [Clock(3.0), Clock(0.0), Clock(None)]
    participants = Participants([Silent(), *some])
    assert participants.left() == 0
    participants.tick()
    participants.close()
    assert [(one.ticks, one.closed) for one in some] == [(0, 1), (1, 1), (0, 1)]
    assert Participants([Silent()]).left() is None
