"""Lessons: what pages have taught about which ones need the browser, shared with all nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from crawlframe.frontier import Frontier
from crawlframe.outcome import Outcome, Verdict
from crawlframe.render.attempt import Taught


def teach(frontier: Frontier, outcomes: Iterable[Outcome]) -> None:
    """Only pages whose rows are committed teach. Raises redis.RedisError."""
    taught: dict[str, list[Taught]] = defaultdict(list)
    for outcome in outcomes:
        one = outcome.attempt
        if one is not None and one.lesson is not None and outcome.verdict is Verdict.DONE:
            page = Taught(one.template, one.lesson, bool(outcome.items))
            taught[one.spider].append(page)
    for spider, pages in taught.items():
        frontier.renders.learn(spider, pages)
