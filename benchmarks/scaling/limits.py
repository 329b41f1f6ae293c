"""Limits: what limited the speed of a crawl, judged by the use of the processors."""

from __future__ import annotations

from benchmarks.scaling.cluster import Run

FULL = 0.9  # of all processors, or of one for what can use only one


def limit(run: Run, processors: int) -> str:
    """The limit in words. Site and Redis do their work in one thread, a worker in little more."""
    used = {part: run.share(part) for part in run.cpu}
    if run.busy >= FULL * processors:
        greatest = max(used, key=lambda part: used[part])
        others = max(0.0, run.busy - sum(used.values())) / run.busy
        words = f"the processors ({greatest} {used[greatest] / run.busy:.0%} of what they did"
        return words + (f", strangers {others:.0%})" if others > 0.1 else ")")
    for part in ("site", "Redis"):
        if used[part] >= FULL:
            return f"{part}: one processor is all it can use"
    if used["crawler"] >= FULL * run.size.nodes * run.size.workers:
        return "the workers: each has one event loop"
    return "waiting: neither the processors nor a server was busy all the time"
