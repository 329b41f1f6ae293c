"""TaskStates: cookies, and the proxies of sessions, that requests need and no record has."""

from __future__ import annotations

import logging
from collections import defaultdict

from crawlframe.frontier import Frontier
from crawlframe.frontier.client.records import BLOCKED
from crawlframe.run.ledger import COOKIES, PROXIES, Ledger, LedgerRefused
from crawlframe.run.outcome import Outcome
from crawlframe.run.participant import Participant

log = logging.getLogger(__name__)

MAX_SESSIONS = 10_000  # sessions whose proxies are remembered, so that they are not written again


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
