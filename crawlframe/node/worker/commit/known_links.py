"""Participants that drop follow-ups that are known: to this task, or to the task whose pages it
parses."""

from __future__ import annotations

from crawlframe.frontier import Frontier
from crawlframe.request.request import Admission, make_rid
from crawlframe.run.ledger import Ledger
from crawlframe.run.link_filters import Sieve
from crawlframe.run.outcome import Outcome
from crawlframe.run.participant import Participant

REACH = 50  # places before and behind its own at which a link with dont_filter is looked for
MAX_LINKS = 500  # such links of one page, times REACH


class SourceLinks(Participant):
    """Drops follow-ups of kept pages that the task which fetched these pages has made before. If
    the task that parses them does not follow links, drops and counts all."""

    takes = ("parent", "results.source")

    def __init__(self, frontier: Frontier, ledger: Ledger) -> None:
        self._frontier = frontier
        self._ledger = ledger

    def concerned(self, outcomes: list[Outcome]) -> list[Outcome]:
        return [o for o in outcomes if o.results.follow_ups]

    def prepare(self, outcomes: list[Outcome]) -> None:
        there = [_as_known_there(outcome) for outcome in outcomes]
        asked = [
            (_source_of(o), [one for candidates in links for one in candidates])
            for o, links in zip(outcomes, there, strict=True)
        ]
        waiting = self._frontier.known(asked)  # Redis knows nothing of ended tasks
        recorded = self._ledger.recorded_requests({one.rid for _, every in asked for one in every})
        for outcome, links_there, (_, every), marks in zip(
            outcomes, there, asked, waiting, strict=True
        ):
            seen = {one.rid for one, mark in zip(every, marks, strict=True) if mark}
            seen.update(one.rid for one in every if one.rid in recorded)
            known = _known(links_there, seen)
            results = outcome.results
            links = zip(results.follow_ups, results.fingerprints, known, strict=True)
            new = [(link, fingerprint) for link, fingerprint, made in links if not made]
            follow = True
            if results.source is not None:
                results.source.links = len(new)
                follow = bool(outcome.parent) and not results.source.dry_run
            if follow:
                results.duplicates += len(known) - len(new)
            else:
                new = []
            results.follow_ups = [link for link, _ in new]
            results.fingerprints = [fingerprint for _, fingerprint in new]


class KnownLinks(Participant):
    """The second sieve: drops follow-ups that Redis has admitted, for they were recorded in the
    database before."""

    takes = ("results.follow_ups",)

    def __init__(self, frontier: Frontier, sieve: Sieve) -> None:
        self._frontier = frontier
        self._sieve = sieve

    def prepare(self, outcomes: list[Outcome]) -> None:
        answers = self._frontier.known([(o.task, o.results.follow_ups) for o in outcomes])
        for outcome, known in zip(outcomes, answers, strict=True):
            if not any(known):
                continue
            results = outcome.results
            links = list(zip(results.follow_ups, results.fingerprints, known, strict=True))
            self._sieve.add(outcome.task, (mark for _, mark, old in links if old))
            outcome.count_known(link for link, _, old in links if old)
            results.follow_ups = [link for link, _, old in links if not old]
            results.fingerprints = [mark for _, mark, old in links if not old]


def _source_of(outcome: Outcome) -> int:
    return outcome.results.source.task if outcome.results.source is not None else outcome.parent


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
    """The follow-ups as the source task would have them, in order. A follow-up with dont_filter is
    identified by the request that yielded it and its place among that request's follow-ups. Other
    links move this place if the code changed, or the task knew some: so it has several."""
    task, found = _source_of(outcome), []
    mine = b"\0" + outcome.rid
    unfiltered = sum(mine in fingerprint for fingerprint in outcome.results.fingerprints)
    reach = min(REACH, MAX_LINKS // max(1, unfiltered)) if outcome.results.source is not None else 0
    for link, fingerprint in zip(
        outcome.results.follow_ups, outcome.results.fingerprints, strict=True
    ):
        request, marked, place = fingerprint.rpartition(mine)
        names = [fingerprint]
        if outcome.results.source is not None and marked:
            here = int(place)
            places = sorted(
                range(max(0, here - reach), here + reach + 1), key=lambda n: abs(n - here)
            )
            names = [b"%s\0%s%d" % (request, outcome.results.source.rid, n) for n in places]
        found.append([link._replace(rid=make_rid(task, name)) for name in names])
    return found
