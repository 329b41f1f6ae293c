"""SourceLinks: what callbacks yield in a task that parses the pages of another one."""

from __future__ import annotations

from collections.abc import Collection

from crawlframe.frontier import Frontier
from crawlframe.ledger import Ledger
from crawlframe.outcome import Outcome
from crawlframe.request import Admission, make_rid


def drop(outcomes: Collection[Outcome], frontier: Frontier, ledger: Ledger) -> None:
    """Drops the follow-ups that the task knows whose pages are parsed: it has made those requests.
    Those of a page of a task that is not followed are counted, and dropped too. Raises
    LedgerAway, redis.RedisError and FrontierError."""
    some = [o for o in outcomes if o.follow_ups and (o.parent or o.source)]
    if not some:
        return
    asked = [(_source_of(o), _as_known_there(o)) for o in some]
    waiting = frontier.known(asked)  # of those that have ended, it knows nothing
    rids = {one.rid for _, admissions in asked for one in admissions}
    recorded = ledger.recorded_requests(rids)
    for outcome, (_, there), marks in zip(some, asked, waiting, strict=True):
        known = [mark or one.rid in recorded for one, mark in zip(there, marks, strict=True)]
        links = zip(outcome.follow_ups, outcome.fingerprints, known, strict=True)
        new = [(link, fingerprint) for link, fingerprint, old in links if not old]
        follow = True
        if outcome.source is not None:
            outcome.source.links = len(new)
            follow = bool(outcome.parent) and not outcome.source.dry_run
        if follow:
            outcome.duplicates += len(known) - len(new)
        else:
            new = []
        outcome.follow_ups = [link for link, _ in new]
        outcome.fingerprints = [fingerprint for _, fingerprint in new]


def _source_of(outcome: Outcome) -> int:
    return outcome.source.task if outcome.source is not None else outcome.parent


def _as_known_there(outcome: Outcome) -> list[Admission]:
    """The follow-ups as that task would have them, in the same order."""
    task, found = _source_of(outcome), []
    for link, fingerprint in zip(outcome.follow_ups, outcome.fingerprints, strict=True):
        if outcome.source is not None:  # one with dont_filter has the request that yielded it
            fingerprint = fingerprint.replace(b"\0" + outcome.rid, b"\0" + outcome.source.rid)
        found.append(link._replace(rid=make_rid(task, fingerprint)))
    return found
