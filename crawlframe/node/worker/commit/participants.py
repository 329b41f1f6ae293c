"""The participants of a worker's commits: they share state of tasks, tell the frontier of rows, or
free memory."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping

from redis import RedisError

from crawlframe.base.urls import host_of
from crawlframe.frontier import Frontier
from crawlframe.frontier.client.records import BLOCKED
from crawlframe.frontier.reservations import FINISHED, LEFT, PageReservation, Target
from crawlframe.near.fingerprint import NearStore
from crawlframe.node.worker.commit.known_links import KnownLinks, SourceLinks
from crawlframe.render.yielded import Taught
from crawlframe.run.ledger import COOKIES, PROXIES, Ledger, LedgerRefused, Recorded
from crawlframe.run.link_filters import Sieve
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.run.participant import Participant, Participants
from crawlframe.run.reasons import DUPLICATE

log = logging.getLogger(__name__)

MAX_SESSIONS = 10_000  # sessions whose proxies are remembered, so that they are not written again
MAX_DETAIL = 1000  # characters of a URL in the row of a page

Rows = Mapping[bytes, Recorded]


class TaskStates(Participant):
    """Shares the states of the tasks of one worker: writes them to the database, then to Redis."""

    takes = ("fetch.cookies", "route")

    def __init__(self, frontier: Frontier, ledger: Ledger) -> None:
        self._frontier = frontier
        self._ledger = ledger
        self._proxies: dict[str, str] = {}  # place of a session -> id of its proxy

    def prepare(self, outcomes: list[Outcome]) -> None:
        states: dict[tuple[int, str], dict[str, str]] = defaultdict(dict)
        sessions: dict[str, str] = {}
        for outcome in outcomes:
            if outcome.fetch.cookies:
                states[outcome.task, COOKIES].update(outcome.fetch.cookies)
            if "#" in outcome.route and outcome.fetch.via is not None and outcome.fetch.via.of_pool:
                place = outcome.place_of(outcome.host)
                # A block has taken it from the session.
                proxy = "" if outcome.fetch.signal[0] == BLOCKED else str(outcome.fetch.via.id)
                if self._proxies.get(place) != proxy:
                    states[outcome.task, PROXIES][place] = sessions[place] = proxy
        if not states:
            return
        try:
            self._ledger.tasks.keep_state(states)
        except LedgerRefused as error:  # the requests continue as long as Redis has them
            log.error("the database refuses cookies or proxies of sessions: %s", error)
        for (task, kind), entries in states.items():
            if kind == COOKIES:
                self._frontier.share_cookies(task, entries)
        self._proxies = sessions if len(self._proxies) > MAX_SESSIONS else self._proxies | sessions


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


class RedirectTargets(FrontierNotice):
    """The targets of requests that have finished count as admitted; requests for them that had been
    admitted meanwhile end. A target that a request has not finished, as its row says, is fetched by
    the next request that leads there."""

    takes = ("fetch.landing",)

    def after(self, outcomes: list[Outcome], recorded: Rows) -> Collection[Outcome]:
        targets: dict[Target, Outcome] = {}
        for outcome in outcomes:
            row = recorded.get(outcome.rid)
            if row is None or (row.landing is None and outcome.fetch.landing is None):
                continue
            for landing in {row.landing, outcome.fetch.landing} - {None}:
                assert landing is not None
                lasts = FINISHED if landing == row.landing else LEFT
                targets[Target(outcome.task, outcome.rid, *landing, lasts)] = outcome
        if not targets:
            return ()
        waits = self._frontier.reservations.follow([*targets])
        return [
            _duplicate(target, by)
            for (target, by), own in zip(targets.items(), waits, strict=True)
            if own
        ]


def _duplicate(target: Target, by: Outcome) -> Outcome:
    """Returns the outcome of a request whose page ``by`` fetched."""
    outcome = Outcome(target.target, by.task, host_of(target.url), b"", 0, 0, target.url)
    outcome.callback, outcome.depth, outcome.version = by.callback, by.depth, by.version
    outcome.end(Verdict.DONE, DUPLICATE, f"of {by.url[:MAX_DETAIL]}, which redirects to it")
    outcome.results.duplicates = 1
    return outcome


def participants(frontier: Frontier, ledger: Ledger, sieve: Sieve) -> Participants:
    """States come before the follow-ups and targets of redirects that need them. Links that another
    task has made are dropped before links that this task knows."""
    return Participants(
        (
            TaskStates(frontier, ledger),
            SourceLinks(frontier, ledger),
            KnownLinks(frontier, sieve),
            BodyMemory(),
            ClosedTasks(frontier),
            RedirectTargets(frontier),
            RenderFeedback(frontier),
            NearPageEnds(frontier),
            PageReservations(frontier),
        ),
        documented=(RedisError,),
    )
