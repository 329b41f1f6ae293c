"""Participants that follow the row of a page: they tell the frontier, or free memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from crawlframe.base.urls import host_of
from crawlframe.frontier import Frontier
from crawlframe.frontier.reservations import PageReservation
from crawlframe.near.fingerprint import NearStore
from crawlframe.render.yielded import Taught
from crawlframe.run.ledger import Recorded
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.run.participant import Participant

Rows = Mapping[bytes, Recorded]


class BodyMemory(Participant):
    """Frees the bodies of kept pages: they are stored, or will not be."""

    takes = ("results.page",)

    def after(self, outcomes: list[Outcome], recorded: Rows) -> Collection[Outcome]:
        for outcome in outcomes:
            if outcome.results.page is not None:
                outcome.results.page.give()
        return ()


class FrontierNotice(Participant):
    """Reports to the frontier."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier


class ClosedTasks(FrontierNotice):
    """Waiting requests of tasks that are closed are not fetched. A steward removes them."""

    takes = ("results.closing", "fetch.budget")  # a budget may have closed its task

    def after(self, outcomes: list[Outcome], recorded: Rows) -> Collection[Outcome]:
        for task in {o.task for o in outcomes if o.results.closing and _is_new(o, recorded)}:
            if (counts := self._frontier.counts(task)) and counts.nr:
                self._frontier.cancel(task, 0)
        return ()


class RenderFeedback(FrontierNotice):
    """Shares with all nodes whether pages need the browser. Only pages that are done count."""

    takes = ("fetch.attempt",)

    def after(self, outcomes: list[Outcome], recorded: Rows) -> Collection[Outcome]:
        taught: dict[str, list[Taught]] = defaultdict(list)
        for outcome in outcomes:
            one = outcome.fetch.attempt
            if one is not None and one.lesson is not None and outcome.verdict is Verdict.DONE:
                page = Taught(one.template, one.lesson, bool(outcome.results.items))
                taught[one.spider].append(page)
        for spider, pages in taught.items():
            self._frontier.renders.learn(spider, pages)
        return ()


class NearPageEnds(FrontierNotice):
    """Settles pages that have a row with the store of texts. A page whose request ended as an error
    is not remembered: a similar page may bring its items."""

    takes = ("fetch.near",)

    def after(self, outcomes: list[Outcome], recorded: Rows) -> Collection[Outcome]:
        stores: dict[NearStore, tuple[list[bytes], list[bytes]]] = defaultdict(lambda: ([], []))
        for outcome in outcomes:
            if outcome.fetch.near is not None and outcome.rid in recorded:
                kept, dropped = stores[outcome.fetch.near.store]
                (kept if outcome.verdict is Verdict.DONE else dropped).append(
                    outcome.fetch.near.head
                )
        for store, (kept, dropped) in stores.items():
            self._frontier.near.settle(store, kept, dropped)
        return ()


class PageReservations(FrontierNotice):
    """Other requests need not wait for these pages any more."""

    takes = ("fetch.reserved",)

    def concerned(self, outcomes: list[Outcome]) -> list[Outcome]:
        return [o for o in outcomes if o.fetch.reserved and o.verdict is not Verdict.REDIRECT]

    def after(self, outcomes: list[Outcome], recorded: Rows) -> Collection[Outcome]:
        ended = [PageReservation(o.fetch.key, host_of(o.url), o.rid) for o in outcomes]
        self._frontier.reservations.take(ended)
        return ()


def _is_new(outcome: Outcome, recorded: Rows) -> bool:
    """Whether this run has written the row."""
    return outcome.rid in recorded and recorded[outcome.rid].new
