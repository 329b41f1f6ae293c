"""The outcome of a claimed request, before anything is known of it."""

from __future__ import annotations

from crawlframe.frontier.client.records import Claimed
from crawlframe.proxies.place import host_in, route_in
from crawlframe.request.record import hops_of, read_head
from crawlframe.run.outcome import Outcome


def outcome_of(claimed: Claimed, version: str) -> Outcome:
    """``version``: of the code that runs it."""
    rid, task, place, attempts, deliveries, record, *_ = claimed
    host, route = host_in(place), route_in(place)
    return Outcome(rid, task, host, record, attempts, deliveries, version=version, route=route)


def take_head(outcome: Outcome) -> None:
    """Copies what can be read of an unreadable record to the outcome. Raises BadRequest."""
    outcome.url, outcome.depth, outcome.callback, _ = read_head(outcome.record)
    outcome.fetch.redirects = hops_of(outcome.record)
