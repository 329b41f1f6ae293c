"""The table of robots.txt: one worker of the cluster has the turn, by the database's clock."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from crawlframe.frontier import Frontier
from crawlframe.robots.state import RobotsState, Status
from crawlframe.run.ledger import RobotsTurn
from crawlservice.ledger.robots import forget
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import RobotsFile
from tests.crawlservice.chores import at_once

pytestmark = pytest.mark.usefixtures("orm")

ORIGIN = "http://a.example"
LEASE = 40.0
ASKERS = 8


def state(now: float, **more: Any) -> RobotsState:
    known = RobotsState(Status.RULES, 200, "User-agent: *\n", now, now + 3600, crawl_delay=2.5)
    return known._replace(**more)


def turn_of(ledger: DjangoLedger, origin: str) -> RobotsTurn:
    return ledger.robots.turns([origin], LEASE)[0]


def later(**seconds: float) -> None:
    """Moves times of the row into the past."""
    row = RobotsFile.objects.get()
    for name, n in seconds.items():
        setattr(row, name, getattr(row, name) - timedelta(seconds=n))
    row.save()


def test_the_first_one_has_the_turn() -> None:
    ledger = DjangoLedger()
    first, second = turn_of(ledger, ORIGIN), turn_of(ledger, ORIGIN)
    assert (first.mine, second.mine) == (True, False)
    assert first.state == second.state == RobotsState()
    other = "https://a.example"
    some = ledger.robots.turns([other, ORIGIN, other], LEASE)
    assert [turn.mine for turn in some] == [True, False, False], "another origin, named twice"
    kept = state(first.now, note="n", reason="")
    ledger.robots.save({ORIGIN: kept})
    known = turn_of(ledger, ORIGIN)
    assert (known.mine, known.state) == (False, kept)
    assert known.state.is_known(known.now)


@pytest.mark.parametrize("lease", [LEASE, 180.0])
def test_the_turn_ends_with_its_lease(lease: float) -> None:
    ledger = DjangoLedger()
    turn_of(ledger, ORIGIN)
    ledger.robots.keep(ORIGIN, lease)
    later(lease_until=lease - 5)
    assert not turn_of(ledger, ORIGIN).mine
    later(lease_until=10)
    assert turn_of(ledger, ORIGIN).mine
    later(lease_until=LEASE - 5)
    assert not turn_of(ledger, ORIGIN).mine


@pytest.mark.parametrize("name", ["known_until", "next_try"])
def test_it_is_due_when_its_time_has_come(name: str) -> None:
    ledger = DjangoLedger()
    now = turn_of(ledger, ORIGIN).now
    changes = {"known_until": 0.0, name: now + 60}
    ledger.robots.save({ORIGIN: state(now, **changes)})
    assert not turn_of(ledger, ORIGIN).mine
    later(**{name: 61})
    turn = turn_of(ledger, ORIGIN)
    assert turn.mine
    assert turn.state.text, "what was read before"


def test_a_forgotten_one_is_read_again(service: Frontier) -> None:
    ledger = DjangoLedger()
    turn = turn_of(ledger, ORIGIN)
    ledger.robots.save({ORIGIN: state(turn.now)})
    before = service.hosts.robots_forgotten()
    service.hosts.robots("a.example", turn.now + 3600, 5.0)
    assert forget([ORIGIN, "https://a.example"]) == 1
    assert service.hosts.robots_forgotten() > before
    gate = service.hosts.states(["a.example"])["a.example"]
    assert (gate.robots_until, gate.robots_delay) == (0, 0)
    assert turn_of(ledger, ORIGIN).mine
    RobotsFile.objects.all().delete()  # while it is read
    ledger.robots.save({ORIGIN: state(turn.now)})
    assert RobotsFile.objects.get().status == "rules"


@pytest.mark.parametrize("before", ["no row", "due"])
def test_of_many_at_once_one_has_the_turn(before: str) -> None:
    if before == "due":
        RobotsFile.objects.create(origin=ORIGIN, lease_until=Now() - timedelta(seconds=1))
    turns = at_once(*[lambda: turn_of(DjangoLedger(), ORIGIN)] * ASKERS)
    assert [turn.mine for turn in turns].count(True) == 1


def test_a_text_of_any_characters_is_kept() -> None:
    ledger = DjangoLedger()
    turn = turn_of(ledger, ORIGIN)
    text = "Disallow: /\u30c4\ufffd\u0001 %s ' \" \\ {}\n"
    ledger.robots.save({ORIGIN: state(turn.now, text=text, reason="x" * 90, note=text)})
    kept = turn_of(ledger, ORIGIN).state
    assert (kept.text, kept.note, len(kept.reason)) == (text, text, 60)
