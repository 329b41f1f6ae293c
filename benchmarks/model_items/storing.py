"""Storing: pages with items of one kind, from what a callback yields to the commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count
from typing import Any, NamedTuple
from uuid import uuid4

from benchmarks.lab.postgres import Postgres
from benchmarks.lab.results import Spread
from benchmarks.model_items.shop.models import Offer
from crawlframe import Upsert
from crawlframe.collector import Collector
from crawlframe.link_filters import Known, LinkPage
from crawlframe.outcome import Outcome
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Task

ITEMS = 10  # of a page
COMMIT_SIZE = 64  # pages of a commit, as in a busy worker
NONE = "no items"
TEXT = "A sentence about what is offered here, as shops have it. " * 3


class Cost(NamedTuple):
    """CPU seconds of this process, and of PostgreSQL, for all pages of a run."""

    kind: str
    pages: int
    ours: float
    postgres: float


def _fields(number: int) -> dict[str, Any]:
    return {
        "url": f"https://shop.example/offers/{number}",
        "name": f"Offer {number}",
        "price": Decimal(number % 10_000) / 100,
        "currency": "EUR",
        "stock": number % 50,
        "brand": f"Brand {number % 100}",
        "text": TEXT,
        "seen_at": datetime(2026, 1, 1, tzinfo=UTC),
    }


KINDS: dict[str, Callable[[int], Any]] = {
    NONE: lambda number: None,
    "JSON": _fields,
    "model": lambda number: Offer(**_fields(number)),
    "Upsert, new rows": lambda number: Upsert(Offer(**_fields(number)), on="url"),
    "Upsert, rows that exist": lambda number: Upsert(Offer(**_fields(number)), on="url"),
    "Upsert with newest and history": lambda number: Upsert(
        Offer(**_fields(number)), on="url", newest="seen_at", history=True
    ),
}
EXISTING = ("Upsert, rows that exist", "Upsert with newest and history")


def storing(kind: str, pages: int, postgres: Postgres) -> Cost:
    """Stores pages with items of a kind as a worker does, on the connection of this thread, in
    tables that are empty but for what the kind updates."""
    Offer._default_manager.all().delete()
    Task.objects.all().delete()
    task = Task.objects.create(spider="shop", arguments={})
    if kind in EXISTING:
        rows = (Offer(**_fields(number)) for number in range(pages * ITEMS))
        Offer._default_manager.bulk_create(rows, batch_size=5_000)
    ledger, numbers = DjangoLedger(), count()
    theirs, ours = postgres.cpu_seconds(), time.process_time()
    for _ in range(pages // COMMIT_SIZE):
        ledger.commit([_outcome(task.pk, _page(kind, numbers)) for _ in range(COMMIT_SIZE)])
    ours, theirs = time.process_time() - ours, postgres.cpu_seconds() - theirs
    return Cost(kind, pages // COMMIT_SIZE * COMMIT_SIZE, ours, theirs)


def _page(kind: str, numbers: Iterator[int]) -> Iterator[Any]:
    make = KINDS[kind]
    for _ in range(ITEMS):
        item = make(next(numbers))
        if item is not None:
            yield item


def _outcome(task: int, things: Iterator[Any]) -> Outcome:
    outcome = Outcome(
        uuid4().bytes, task, "shop.example", b"", 0, 1, "https://shop.example/", "parse", 1,
    )  # fmt: skip
    outcome.fetch.status, outcome.fetch.size, outcome.fetch.fetch_ms = 200, 20_000, 10
    collector = Collector(LinkPage(outcome, depth=1), [Known()])
    for thing in things:
        collector.take(thing)
    return outcome


def item_cost(costs: list[Cost], kind: str) -> tuple[Spread, Spread]:
    """What an item of this kind cost in the rounds, here and in PostgreSQL: microseconds, without
    what its page cost."""
    bare = [cost for cost in costs if cost.kind == NONE]
    full = [cost for cost in costs if cost.kind == kind]
    pairs = [*zip(full, bare, strict=True)]
    return (
        Spread.of(1e6 * (one.ours - none.ours) / one.pages / ITEMS for one, none in pairs),
        Spread.of(1e6 * (one.postgres - none.postgres) / one.pages / ITEMS for one, none in pairs),
    )
