"""Report: the figures of the standard job as tables and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.lab import results
from benchmarks.lab.job import keep, show
from benchmarks.lab.results import Spread
from benchmarks.standard.figures import Figures, Goal, as_dict, goals
from benchmarks.standard.rounds import JOB, Rounds

CPU = """\
User and system time of all processes of the crawler, from their start to their end, with imports;
start: of it, before the task was submitted. times ours: beside crawlframe in the same round, with
as many workers. All figures are medians, with the least and the most of the rounds.
"""
WALL = """\
pages/s: ours from submission to the end of the task, else from the first request to the last row.
peak RSS: MiB of the largest process; sum PSS: MiB of all processes of the crawler at a time, with
shared pages shared out.
"""


def write_text(rounds: Rounds) -> None:
    """Prints the tables, the goals, and how each entry was tuned."""
    found = rounds.figures()
    _show_cpu(found, _title(rounds))
    _show_wall(found)
    if judged := goals(found, rounds.done):
        _show_goals(judged)
    for one in found:
        print(f"{one.entry.label}: {one.notes}")
    print()
    for name, version in rounds.versions.items():
        print(f"{name}: {version}")
    print(f"{rounds.machine['processors']} x {rounds.machine['processor']}")


def write_files(rounds: Rounds, output: Path | None) -> None:
    """Writes everything as JSON."""
    found = rounds.figures()
    data: dict[str, Any] = {
        "pages": rounds.pages,
        "versions": rounds.versions,
        "figures": as_dict(found),
        "goals": [
            {**goal._asdict(), "value": goal.value._asdict(), "met": goal.met}
            for goal in goals(found, rounds.done)
        ],
        "rounds": [[result._asdict() for result in one.values()] for one in rounds.done],
        "failures": rounds.failures,
    }
    keep(JOB, data, output)


def _title(rounds: Rounds) -> str:
    return f"The standard job: {rounds.pages:,} pages, {results.counted(len(rounds.done), 'round')}"


def _show_cpu(found: Sequence[Figures], title: str) -> None:
    rows = [
        (
            one.entry.label,
            one.cpu.text(".3f"),
            f"{one.start.median:.3f}" if one.start else "",
            _ratio(one.more_cpu),
            one.redis.text(".3f"),
            one.postgres.text(".3f"),
        )
        for one in found
    ]
    show(
        f"{title}. CPU milliseconds per page",
        ("crawler", "start", "times ours", "Redis", "PostgreSQL"),
        rows,
    )
    print(CPU)


def _show_wall(found: Sequence[Figures]) -> None:
    rows = [
        (
            one.entry.label,
            one.rate.text(".0f"),
            _ratio(one.slower),
            one.peak.text(".0f"),
            one.total.text(".0f"),
        )
        for one in found
    ]
    show("Time and memory", ("pages/s", "times slower", "peak RSS", "sum PSS"), rows)
    print(WALL)


def _show_goals(judged: Sequence[Goal]) -> None:
    rows = [
        (
            goal.what,
            goal.value.text(),
            f"{'at least' if goal.least else 'at most'} {goal.goal:g}",
            "met" if goal.met else "missed",
        )
        for goal in judged
    ]
    show("Goals", ("measured", "goal", ""), rows)


def _ratio(spread: Spread | None) -> str:
    return spread.text() if spread else ""
