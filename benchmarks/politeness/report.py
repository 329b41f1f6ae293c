"""Report: the figures of the scenes as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.lab.job import keep, show
from benchmarks.politeness.scenes import Scene
from benchmarks.politeness.throttling import Run
from benchmarks.politeness.verdicts import share

CAPTION = """
refused: of the requests after the warm-up (in all). rate: answered pages, of those that the server
allowed after the warm-up. early: requests before an instant that Retry-After had named. latency:
90th percentile, times that of the unloaded server. lost: URLs given up; left: not answered when the
time was over. Meanwhile the code is reloaded and a node is killed.
"""


def write_text(runs: Sequence[Run], scenes: Sequence[Scene]) -> None:
    """Prints a table with a row for each scene."""
    titles = {scene.name: f"{scene.title}: {scene.pages:,} URLs" for scene in scenes}
    columns = ("refused", "rate", "early", "latency", "lost", "left", "")
    show("Servers with limits", columns, [_row(titles[run.scene], run) for run in runs], CAPTION)


def _row(title: str, run: Run) -> Iterable[str]:
    found = run.found
    return (
        title,
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
    """Writes everything as JSON. ``faults``: by trial."""
    figures: dict[str, Any] = {
        "scenes": {scene.name: {"title": scene.title, "pages": scene.pages} for scene in scenes},
        "faults": {**faults},
        "runs": [{**run._asdict(), "found": run.found._asdict()} for run in runs],
    }
    keep("politeness", figures, output)
