"""Verdicts: how a crawler did at a server with limits, from the server's log alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from benchmarks.politeness.limits import OK, TOO_MANY, UNAVAILABLE
from benchmarks.politeness.scenes import Scene
from benchmarks.politeness.world import ROBOTS, Entry, ordered

FLIGHT = 0.3  # seconds after a refusal: arrivals were sent before the refusal was read
MOST = 0.95  # of the answered pages: after them the queue runs dry, and the rate says nothing
REFUSED = {TOO_MANY, UNAVAILABLE}


class Findings(NamedTuple):
    """None where there was nothing to judge, for instance because the crawl was over before the
    warm-up."""

    pages: int  # asked for
    answered: int  # of them, with 200
    lost: int  # of them, given up
    requests: int
    refused: float | None  # share of the requests after the warm-up
    refused_in_all: float
    reached: float | None  # share of the server's limit after the warm-up
    early: int  # requests before an instant that Retry-After had named
    latency: float | None  # 90th percentile, times the unloaded server's
    seconds: float  # from the first request to the last reply


def judge(scene: Scene, entries: Iterable[Entry], ended: bool) -> Findings:
    """``entries`` may hold other hosts too; ``ended``: whether the crawler says that it is done."""
    log = _pages(scene, entries)
    answered = {one.path for one in log if one.status == OK} & {*scene.paths}
    missing = scene.pages - len(answered)
    refused = sum(one.status in REFUSED for one in log)
    first = log[0].arrived if log else 0.0
    pages = sorted(one.arrived - first for one in log if one.status == OK)
    end = pages[math.ceil(MOST * len(pages)) - 1] if pages else 0.0
    settled = _settled(scene, end)
    judged = [one for one in log if _within(one.arrived - first, settled)]
    allowed = sum(scene.host.limit.allowed(*piece) for piece in settled)
    served = sum(one.status == OK for one in judged)
    latencies = sorted(one.replied - one.arrived for one in judged if one.status == OK)
    return Findings(
        pages=scene.pages,
        answered=len(answered),
        lost=missing if ended else 0,
        requests=len(log),
        refused=sum(one.status in REFUSED for one in judged) / len(judged) if judged else None,
        refused_in_all=refused / len(log) if log else 0.0,
        reached=served / allowed if allowed and math.isfinite(allowed) else None,
        early=early(log),
        latency=_percentile(latencies, 0.9) / scene.host.limit.unloaded if latencies else None,
        seconds=log[-1].replied - first if log else 0.0,
    )


def failures(scene: Scene, found: Findings, ended: bool) -> list[str]:
    """The demands of the scene that the crawler did not meet."""
    goals, problems = scene.goals, []
    if not found.requests:
        problems.append("no page was asked for")
    if found.lost:
        problems.append(f"{found.lost} of {found.pages} URLs lost")
    elif not ended and not scene.endless:
        problems.append(f"not ended with {found.answered} of {found.pages} URLs")
    if ended and scene.endless:
        problems.append("ended, although the server refuses and names an instant")
    if found.early:
        problems.append(f"{found.early} requests before the named instant")
    if goals.refused is not None and (found.refused is None or found.refused > goals.refused):
        problems.append(f"refused {share(found.refused)}, at most {share(goals.refused)}")
    if goals.reached is not None and (found.reached is None or found.reached < goals.reached):
        problems.append(
            f"rate {share(found.reached)} of the allowed, at least {share(goals.reached)}"
        )
    if goals.latency is not None and (found.latency is None or found.latency > goals.latency):
        told = "unknown" if found.latency is None else f"{found.latency:.1f} times"
        problems.append(f"latency {told}, at most {goals.latency:g} times the unloaded one")
    return problems


def early(log: Sequence[Entry]) -> int:
    """The requests of one host that came before an instant which an earlier reply had named."""
    named = [(one.replied + FLIGHT, one.until) for one in log if one.until is not None]
    return sum(any(since < one.arrived < until for since, until in named) for one in log)


def share(part: float | None) -> str:
    """``"12.5 %"``; ``"unknown"`` for None."""
    return "unknown" if part is None else f"{100 * part:.1f} %"


def _pages(scene: Scene, entries: Iterable[Entry]) -> list[Entry]:
    """The page requests of the scene's host, by arrival."""
    return ordered(one for one in entries if one.host == scene.host.name and one.path != ROBOTS)


def _settled(scene: Scene, end: float) -> list[tuple[float, float]]:
    """The pieces of the time until ``end`` that are judged."""
    starts = scene.host.limit.changes
    pieces = zip(
        (start + scene.warm_up for start in starts),
        (min(until, end) for until in [*starts[1:], math.inf]),
        strict=True,
    )
    return [(start, until) for start, until in pieces if start < until]


def _within(instant: float, pieces: Iterable[tuple[float, float]]) -> bool:
    return any(start <= instant <= end for start, end in pieces)


def _percentile(ordered: Sequence[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]
