"""Pages that were compared, when their rows are written: the store is told, and URLs are found in
the ledger from then on."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from crawlframe.frontier.near import NearPage
from crawlframe.near.fingerprint import PREFIX, ComparedPage, NearStore, fingerprint_of, head_of
from crawlframe.run.outcome import Outcome, Verdict
from crawlservice.ledger.store import DjangoLedger
from tests.frontier.bench import Bench
from tests.near.texts import changed, text
from tests.node.test_commit import Desk

pytestmark = pytest.mark.usefixtures("orm")
STORE = NearStore(1, limit=1_000)


@pytest.fixture
def desk(make_bench: Callable[..., Bench]) -> Desk:
    return Desk(make_bench())


def compared(desk: Desk, name: str, seed: int = 1) -> Outcome:
    """A page with nearly the same text as the others with this seed."""
    outcome = desk.outcome(name, items=1)
    outcome.fetch.near = ComparedPage(STORE, head_of(outcome.rid, name.encode()))
    found = fingerprint_of(changed(text(seed, 300), 0.03, Random(name)))
    assert found is not None
    like = desk.bench.frontier.near.ask(STORE, [NearPage(outcome.fetch.near.head, found, name)])[0]
    outcome.detail = "" if like is None else like.url or like.head.hex()
    return outcome


def test_a_page_with_a_row_is_found_in_the_ledger(desk: Desk) -> None:
    first = compared(desk, "/a")
    assert compared(desk, "/b").detail == "/a"
    desk.write(first)
    assert first.fetch.near is not None
    assert compared(desk, "/c").detail == first.fetch.near.head.hex()
    ledger, beginning = DjangoLedger(), first.rid[:PREFIX]
    assert ledger.urls_of({beginning, b"none"}, 1) == {beginning: "/a"}
    assert ledger.urls_of({beginning}, 0) == {beginning: "/a"}
    assert ledger.urls_of({beginning}, 2) == {}


def test_answers_end_with_the_row(desk: Desk) -> None:
    asked = desk.bench.store.keys[0]("NEAR_ASKED", STORE.key)
    pages = [compared(desk, "/a"), compared(desk, "/b")]
    assert desk.bench.redis.hlen(asked) == 2
    desk.write(*pages)
    assert desk.bench.redis.hlen(asked) == 0


def test_a_page_that_is_tried_again_keeps_its_answer(desk: Desk) -> None:
    first = compared(desk, "/a")
    desk.write(first.end(Verdict.RETRY, "timeout", delay=1))
    assert compared(desk, "/b").detail == "/a"
    assert compared(desk, "/a").detail == ""


def test_an_error_is_not_remembered(desk: Desk) -> None:
    failed = compared(desk, "/a")
    desk.write(failed.end(Verdict.ERROR, "callback"))
    assert compared(desk, "/b").detail == ""
