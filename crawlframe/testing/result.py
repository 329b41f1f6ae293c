"""Result: the results of one run of a callback."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from crawlframe.base.exact_json import loads
from crawlframe.base.limits import UNFOLLOWED
from crawlframe.base.stats import DROPPED
from crawlframe.proxies.proxy import Proxy
from crawlframe.request.request import Request
from crawlframe.run.outcome import Outcome, Verdict

_ENDS: dict[Verdict, Literal["done", "error", "retry"]]
_ENDS = {Verdict.DONE: "done", Verdict.ERROR: "error"}


@dataclass(frozen=True)
class Result:
    """The results that a node would have stored, and how the request ended.

    ``items`` are as they are stored: decoded JSON, after the pipelines. ``requests`` would be
    queued, as a node decodes them, each once, without requests that ``follow``, ``allowed_domains``
    and limits such as ``depth_limit`` dropped. ``dropped`` has the number of items that pipelines
    or ``obey_noindex`` dropped, or that do not fit the spider's ``item``, by reason; ``unfollowed``
    the number of links that limits or ``obey_nofollow`` dropped, by reason; ``stats`` and
    ``maxima`` the counts of self.stats, by name. ``proxies`` are for the pool. ``closing`` is the
    reason of CloseTask, "" if it was not raised.

    ``end`` is "done", "error" or "retry". Unless it is "done", ``reason`` is the word for the
    ledger, such as "http_404", ``detail`` says more, and only an errback's results are kept.
    ``delay`` is the number of seconds until the next try."""

    items: list[Any]
    requests: list[Request]
    dropped: dict[str, int]
    stats: dict[str, int]
    maxima: dict[str, int | float]
    closing: str = ""
    end: Literal["done", "error", "retry"] = "done"
    reason: str = ""
    detail: str = ""
    delay: float = 0.0
    unfollowed: dict[str, int] = field(default_factory=dict)
    proxies: list[Proxy] = field(default_factory=list)

    @classmethod
    def of(cls, outcome: Outcome) -> Result:
        """Returns the result of an outcome."""
        requests = []
        for admission in outcome.results.follow_ups:
            request = Request.decode(admission.record)
            request.delay = admission.delay / 1000
            requests.append(request)
        stats = outcome.results.stats
        counters = stats.counters if stats else {}
        return cls(
            items=[loads(item) for item in outcome.results.items],
            requests=requests,
            dropped=_below(DROPPED, counters),
            unfollowed=_below(UNFOLLOWED, counters),
            proxies=outcome.results.proxies or [],
            stats={
                name: number
                for name, number in counters.items()
                if not name.startswith((DROPPED, UNFOLLOWED))
            },
            maxima=dict(stats.maxima) if stats else {},
            closing=outcome.results.closing,
            end=_ENDS.get(outcome.verdict, "retry"),
            reason=outcome.reason,
            detail=outcome.detail,
            delay=outcome.delay / 1000,
        )


def _below(prefix: str, counters: dict[str, int]) -> dict[str, int]:
    """The counters whose names start with this, without it."""
    return {
        name.removeprefix(prefix): number
        for name, number in counters.items()
        if name.startswith(prefix)
    }
