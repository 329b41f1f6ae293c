"""Figures: the results of each entry over the rounds, also relative to Crawlframe's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmarks.lab.results import Spread
from benchmarks.standard.entries import LIMIT, OURS, Entry
from benchmarks.standard.runs import Result

Round = dict[str, Result]  # by label; without failed runs


class Figures(NamedTuple):
    """One entry, over the rounds. ``more_cpu`` and ``slower`` are its CPU and time per page
    relative to Crawlframe's in the same round, with the same number of processes; None without
    one."""

    entry: Entry
    cpu: Spread  # milliseconds per page
    redis: Spread
    postgres: Spread
    rate: Spread  # pages per second
    peak: Spread  # MiB
    total: Spread
    more_cpu: Spread | None
    slower: Spread | None
    start: Spread | None  # milliseconds of CPU per page that went by before the task was submitted
    notes: str


def figures(rounds: Sequence[Round], entries: Sequence[Entry]) -> list[Figures]:
    """The figures of the entries that have not failed in every round."""
    return [
        _of(entry, rounds, entries) for entry in entries if any(entry.label in r for r in rounds)
    ]


def _of(entry: Entry, rounds: Sequence[Round], entries: Sequence[Entry]) -> Figures:
    mine = [one[entry.label] for one in rounds if entry.label in one]
    base = _base(entry, entries)
    pairs = [
        (one[entry.label], one[base.label])
        for one in rounds
        if base is not None and entry.label in one and base.label in one
    ]

    def per_page(value: Callable[[Result], float]) -> Spread:
        return Spread.of(value(run) / run.pages * 1000 for run in mine)

    return Figures(
        entry=entry,
        cpu=per_page(lambda run: run.cpu),
        redis=per_page(lambda run: run.redis),
        postgres=per_page(lambda run: run.postgres),
        rate=Spread.of(run.pages / run.seconds for run in mine),
        peak=Spread.of(run.peak / 2**20 for run in mine),
        total=Spread.of(run.total / 2**20 for run in mine),
        more_cpu=Spread.of(run.cpu / ours.cpu for run, ours in pairs) if pairs else None,
        slower=Spread.of(run.seconds / ours.seconds for run, ours in pairs) if pairs else None,
        start=(None if mine[0].start_cpu is None else per_page(lambda run: run.start_cpu or 0.0)),
        notes=mine[0].notes,
    )


def _base(entry: Entry, entries: Sequence[Entry]) -> Entry | None:
    """Crawlframe with as many processes, else with the fewest that ran."""
    ours = sorted((one for one in entries if one.name == OURS), key=lambda one: one.processes)
    same = [one for one in ours if one.processes == entry.processes]
    return next(iter(same + ours), None)


class Goal(NamedTuple):
    """A goal of the standard job. ``least``: the value must be at least the goal."""

    what: str
    value: Spread
    goal: float
    least: bool

    @property
    def met(self) -> bool:
        return self.value.median >= self.goal if self.least else self.value.median <= self.goal


def goals(all_figures: Sequence[Figures], rounds: Sequence[Round]) -> list[Goal]:
    """The goals that these figures can judge."""
    by_label = {one.entry.label: one for one in all_figures}
    found: list[Goal] = []
    for label, goal in ((f"{OURS} x1", 0.45), ("crawlframe-parsel", 0.9)):
        if label in by_label:
            found.append(Goal(f"CPU ms per page, {label}", by_label[label].cpu, goal, False))
    for label, goal in (("scrapy", 9), ("scrapy-redis x1", 18), ("crawlee", 7)):
        if label in by_label and (ratio := by_label[label].more_cpu):
            found.append(Goal(f"times our CPU per page, {label}", ratio, goal, True))
    own = [one.more_cpu for one in all_figures if "--own-set" in one.entry.options and one.more_cpu]
    if own:
        best = min(own, key=lambda ratio: ratio.median)
        found.append(Goal("times our CPU per page, the best with a set of its own", best, 4, True))
    ours, bare = f"{OURS} x1", LIMIT
    both = [one[ours].cpu / one[bare].cpu for one in rounds if ours in one and bare in one]
    if both:
        found.append(Goal("our CPU per page, times the bare limit's", Spread.of(both), 1.6, False))
    for one in all_figures:
        if one.entry.name == "scrapy-redis" and one.slower:
            found.append(Goal(f"times our wall time, {one.entry.label}", one.slower, 10, True))
    return found


def as_dict(all_figures: Sequence[Figures]) -> list[dict[str, Any]]:
    """The figures for JSON."""
    return [
        {
            "label": one.entry.label,
            **{
                name: value._asdict() if isinstance(value, Spread) else value
                for name, value in one._asdict().items()
                if name != "entry"
            },
        }
        for one in all_figures
    ]
