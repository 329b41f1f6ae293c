"""Settles, with the store of texts, pages that have a row now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from crawlframe.frontier import Frontier
from crawlframe.near.page import NearStore
from crawlframe.outcome import Outcome, Verdict


def settle(frontier: Frontier, outcomes: Iterable[Outcome]) -> None:
    """A page whose request ended as an error is not remembered: one that is like it may bring what
    it did not. Raises redis.RedisError."""
    stores: dict[NearStore, tuple[list[bytes], list[bytes]]] = defaultdict(lambda: ([], []))
    for outcome in outcomes:
        if outcome.near is not None:
            kept, dropped = stores[outcome.near.store]
            (kept if outcome.verdict is Verdict.DONE else dropped).append(outcome.near.head)
    for store, (kept, dropped) in stores.items():
        frontier.near.settle(store, kept, dropped)
