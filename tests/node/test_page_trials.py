"""Which trials and previews a node takes, and how many at a time. No process is forked."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from crawlframe.frontier.cluster.trials import PREVIEW, TrialOrder
from crawlframe.node.master import recorded_check
from crawlframe.node.master.recorded_check import PREVIEW_SECONDS, TRIAL_SECONDS, PageTrials
from tests.node.test_code_reload import loaded

PAGE = TrialOrder("ab", "")
ANY = TrialOrder("", PREVIEW, 7)
OURS = TrialOrder("", PREVIEW, 8, "alpha")
THEIRS = TrialOrder("", PREVIEW, 9, "beta")


class Pool:
    """Processes that are none. ``started``: the ids of their orders."""

    def __init__(self) -> None:
        self.members: list[Any] = []
        self.started: list[str] = []
        self._pids = count(1)

    def start_checker(self, template: Any) -> Any:
        child = SimpleNamespace(pid=next(self._pids))
        self.members.append(child)
        return child

    def send(self, child: Any, message: Any) -> None:
        self.started.append(message.trial)


class Orders:
    """A frontier with these orders."""

    def __init__(self, **given: TrialOrder) -> None:
        self.given = given
        self.reads = 0
        self.trials = self

    def take(self, fits: Callable[[TrialOrder], bool], most: int) -> dict[str, TrialOrder]:
        self.reads += 1
        found = [name for name, what in self.given.items() if fits(what)][:most]
        return {name: self.given.pop(name) for name in found}


class Beats:
    """The beats of node alpha."""

    def __init__(self) -> None:
        self.pool = Pool()
        self._trials = PageTrials(self.pool, "alpha")  # type: ignore[arg-type]

    def __call__(self, orders: Orders, revision: str = "1f00", now: float = 0.0) -> list[str]:
        """The orders that are taken."""
        before = len(self.pool.started)
        code = msgspec.structs.replace(loaded("1"), revision=revision)
        self._trials.end_overdue(now)
        self._trials.tick(orders, SimpleNamespace(loaded=code), now)  # type: ignore[arg-type]
        return self.pool.started[before:]


@pytest.fixture
def beat() -> Beats:
    return Beats()


def test_a_beat_without_orders_reads_once(beat: Beats) -> None:
    orders = Orders(theirs=THEIRS)
    assert beat(orders) == []
    assert orders.reads == 1


def test_one_preview_at_a_time_leaves_room_for_pages(beat: Beats) -> None:
    orders = Orders(first=ANY, second=OURS, page=PAGE, other=PAGE)
    assert beat(orders) == ["first", "page"]
    assert beat(orders) == []
    beat.pool.members.clear()
    assert beat(orders) == ["second", "other"]


def test_a_node_without_git_takes_no_preview(beat: Beats) -> None:
    assert beat(Orders(any=ANY, ours=OURS), revision="") == []


def test_each_kind_has_its_limit(beat: Beats, monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    monkeypatch.setattr(recorded_check, "kill_with_all", lambda child: killed.append(child.pid))
    beat(Orders(preview=ANY, page=PAGE))
    beat(Orders(), now=TRIAL_SECONDS)
    assert killed == [2]
    beat(Orders(), now=PREVIEW_SECONDS)
    assert killed == [2, 1, 2]
