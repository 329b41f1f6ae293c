"""States: what outcomes have changed of what requests need that is in no record."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable

from crawlframe.frontier import Frontier
from crawlframe.frontier.records import BLOCKED
from crawlframe.ledger import COOKIES, PROXIES, Ledger, LedgerRefused
from crawlframe.outcome import Outcome

log = logging.getLogger(__name__)

MOST = 10_000  # sessions whose proxies are remembered, so that they are not written again


class States:
    """Those of the tasks of one worker."""

    def __init__(self) -> None:
        self._proxies: dict[str, str] = {}  # place of a session -> id of its proxy

    def write(self, ledger: Ledger, frontier: Frontier, outcomes: Iterable[Outcome]) -> None:
        """Writes to the database, then to Redis. Raises LedgerAway, redis.RedisError and
        FrontierError."""
        states: dict[tuple[int, str], dict[str, str]] = defaultdict(dict)
        sessions: dict[str, str] = {}
        for outcome in outcomes:
            if outcome.cookies:
                states[outcome.task, COOKIES].update(outcome.cookies)
            if "#" in outcome.route and outcome.via is not None and outcome.via.of_pool:
                place = outcome.place_of(outcome.host)
                # A block has taken it from the session.
                proxy = "" if outcome.signal[0] == BLOCKED else str(outcome.via.id)
                if self._proxies.get(place) != proxy:
                    states[outcome.task, PROXIES][place] = sessions[place] = proxy
        if not states:
            return
        try:
            ledger.keep_state(states)
        except LedgerRefused as error:  # the requests go on as long as Redis has it
            log.error("the database refuses cookies or proxies of sessions: %s", error)
        for (task, kind), entries in states.items():
            if kind == COOKIES:
                frontier.share_cookies(task, entries)
        self._proxies = sessions if len(self._proxies) > MOST else self._proxies | sessions
