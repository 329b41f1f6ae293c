"""SourceLinks: what callbacks yield in a task that parses the pages of another one."""

from __future__ import annotations

from collections.abc import Collection

from crawlframe.frontier import Frontier
from crawlframe.ledger import Ledger
from crawlframe.outcome import Outcome
from crawlframe.request import Admission, make_rid

REACH = 50  # places before and behind its own at which a link with dont_filter is looked for
MOST = 500  # such links of one page, times REACH


def drop(outcomes: Collection[Outcome], frontier: Frontier, ledger: Ledger) -> None:
    """Drops the follow-ups that the task knows whose pages are parsed: it has made those requests.
    Those of a page of a task that is not followed are counted, and dropped too. Raises
    LedgerAway, redis.RedisError and FrontierError."""
    some = [o for o in outcomes if o.follow_ups and (o.parent or o.source)]
    if not some:
        return
    there = [_as_known_there(outcome) for outcome in some]
    asked = [
        (_source_of(o), [one for candidates in links for one in candidates])
        for o, links in zip(some, there, strict=True)
    ]
    waiting = frontier.known(asked)  # of those that have ended, it knows nothing
    recorded = ledger.recorded_requests({one.rid for _, every in asked for one in every})
    for outcome, links_there, (_, every), marks in zip(some, there, asked, waiting, strict=True):
        old = {
            one.rid for one, mark in zip(every, marks, strict=True) if mark or one.rid in recorded
        }
        known = _known(links_there, old)
        links = zip(outcome.follow_ups, outcome.fingerprints, known, strict=True)
        new = [(link, fingerprint) for link, fingerprint, made in links if not made]
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


def _known(links: list[list[Admission]], old: set[bytes]) -> list[bool]:
    """Whether the task has made each of the requests. One that it has made stands for one link."""
    known, left = [], set(old)
    for candidates in links:
        found = next((one.rid for one in candidates if one.rid in left), None)
        known.append(found is not None)
        if found is not None and len(candidates) > 1:
            left.remove(found)
    return known


def _as_known_there(outcome: Outcome) -> list[list[Admission]]:
    """The follow-ups as that task would have them, in the same order. One with dont_filter has the
    request that yielded it and its place among the follow-ups of that one, which other links have
    moved if the code is another one, or if the task knew some of them: so it has several."""
    task, found = _source_of(outcome), []
    mine = b"\0" + outcome.rid
    unfiltered = sum(mine in fingerprint for fingerprint in outcome.fingerprints)
    reach = min(REACH, MOST // max(1, unfiltered)) if outcome.source is not None else 0
    for link, fingerprint in zip(outcome.follow_ups, outcome.fingerprints, strict=True):
        request, marked, place = fingerprint.rpartition(mine)
        names = [fingerprint]
        if outcome.source is not None and marked:
            here = int(place)
            places = sorted(
                range(max(0, here - reach), here + reach + 1), key=lambda n: abs(n - here)
            )
            names = [b"%s\0%s%d" % (request, outcome.source.rid, n) for n in places]
        found.append([link._replace(rid=make_rid(task, name)) for name in names])
    return found
