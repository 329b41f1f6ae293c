"""Report: the figures of the scenes as a table, as JSON and as a chart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.lab import results
from benchmarks.lab.chart import Bar, Line, Panel
from benchmarks.lab.job import keep, show
from benchmarks.politeness.scenes import Scene
from benchmarks.politeness.throttling import LABELS, Run
from benchmarks.politeness.verdicts import share

CURVE = "changing"  # the scene whose rates are drawn over the time
CAPTION = """\
refused: of the requests after the warm-up (in all). rate: answered pages, of those that the server
allowed after the warm-up. early: requests before an instant that Retry-After had named. latency:
90th percentile, times that of the unloaded server. lost: URLs given up; left: not answered when the
time was over. Ours are judged while the code is reloaded and a node is killed.
"""


def write_text(runs: Sequence[Run], scenes: Sequence[Scene]) -> None:
    """Prints a table for each scene."""
    for scene in scenes:
        rows = [_row(run) for run in runs if run.scene == scene.name]
        columns = ("refused", "rate", "early", "latency", "lost", "left", "")
        show(f"{scene.title}: {scene.pages:,} URLs", columns, rows)
    print(CAPTION)


def _row(run: Run) -> Iterable[str]:
    found = run.found
    return (
        LABELS[run.contender],
        f"{share(found.refused)} ({share(found.refused_in_all)})",
        share(found.reached),
        f"{found.early}",
        "" if found.latency is None else f"{found.latency:.1f}",
        f"{found.lost}",
        f"{found.pages - found.answered - found.lost}",
        "missed" if run.problems else "met",
    )


def write_files(
    runs: Sequence[Run],
    scenes: Sequence[Scene],
    faults: Mapping[str, Sequence[str]],
    output: Path | None,
) -> None:
    """Everything as JSON, and beside it a chart. ``faults``: those of each trial."""
    figures: dict[str, Any] = {
        "scenes": {scene.name: {"title": scene.title, "pages": scene.pages} for scene in scenes},
        "faults": {**faults},
        "runs": [{**run._asdict(), "found": run.found._asdict()} for run in runs],
    }
    if runs:
        keep("politeness", figures, "Servers with limits", panels(runs, scenes), output)
    else:
        results.write("politeness", figures, output)


def panels(runs: Sequence[Run], scenes: Sequence[Scene]) -> list[Panel]:
    """The diagrams of the chart."""
    titles = {scene.name: scene.title for scene in scenes if not scene.endless}
    judged = [run for run in runs if run.scene in titles]

    def bars(value: str, factor: float) -> list[Bar]:
        return [
            Bar(
                f"{titles[run.scene]}: {run.contender}",
                {"": factor * (getattr(run.found, value) or 0.0)},
            )
            for name in titles
            for run in judged
            if run.scene == name
        ]

    lines = [Line(LABELS[run.contender], run.curve) for run in runs if run.scene == CURVE]
    return [
        Panel("Rate, of what the server allows (more is better)", "percent", bars("reached", 100)),
        Panel("Refused requests, of all (less is better)", "percent", bars("refused_in_all", 100)),
        Panel("URLs lost (none is right)", "URLs", bars("lost", 1)),
        *[Panel(titles[CURVE], "seconds", lines=lines, y="pages/s")] * bool(lines),
    ]
