"""RedirectTargets: targets of redirects count as admitted once their rows are written."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from crawlframe.base.urls import host_of
from crawlframe.frontier.reservations import FINISHED, LEFT, Target
from crawlframe.node.worker.commit.page_notices import FrontierNotice
from crawlframe.run.ledger import Recorded
from crawlframe.run.outcome import DUPLICATE, Outcome, Verdict

MAX_DETAIL = 1000  # characters of a URL in the row of a page


class RedirectTargets(FrontierNotice):
    """The targets of requests that have finished count as admitted; requests for them that had been
    admitted meanwhile end. A target that a request has not finished, as its row says, is fetched by
    the next request that leads there."""

    takes = ("fetch.landing",)

    def after(
        self, outcomes: list[Outcome], recorded: Mapping[bytes, Recorded]
    ) -> Collection[Outcome]:
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
