"""Report: the figures as tables and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.lab.job import show
from benchmarks.reload.changes import Change, Run, median, percentile
from benchmarks.reload.memory import Sample, slope

GOAL_MEDIAN, GOAL_P95 = 0.5, 1.0  # seconds from the last write to the first page by new code
GOAL_RATE = 0.9  # of the rate before


def figures(changes: Sequence[Change]) -> dict[str, Any]:
    """Seconds and shares over some changes."""
    first = [change.first for change in changes]
    around = [change.around for change in changes]
    control = [change.control for change in changes]
    return {
        "changes": len(changes),
        "first_median": median(first),
        "first_p95": percentile(first, 0.95),
        "first_max": max(first),
        "old_code_until_median": median(change.last for change in changes),
        "gap_median": median(change.gap for change in changes),
        "gap_max": max(change.gap for change in changes),
        "rate": median(change.rate for change in changes),
        "around_median": median(around),
        "around_p5": percentile(around, 0.05),
        "control_median": median(control),
        "control_p5": percentile(control, 0.05),
    }


def show_reloads(runs: Iterable[Run]) -> None:
    """The speed, and the cost for the crawl."""
    speed, rates, counts = [], [], []
    for run in runs:
        for how in dict.fromkeys(change.how for change in run.changes):
            f = figures(run.of(how))
            times = ("first_median", "first_p95", "first_max", "old_code_until_median", "gap_max")
            cells = (f"{f[name]:.2f}" for name in times)
            speed.append([f"{run.name}, {how}", str(f["changes"]), *cells])
        f = figures(run.changes)
        shares = ("around_median", "around_p5", "control_median", "control_p5")
        rates.append([run.name, f"{f['rate']:.0f}", *(f"{f[name]:.0%}" for name in shares)])
        each = f"{run.twice / len(run.changes):.2f}"
        twice = (str(run.twice), each)
        counts.append([run.name, f"{run.fetched:,}", *twice, str(run.lost), str(run.mixed)])
    show(
        "Seconds from the last write to the first page by new code",
        ("n", "median", "p95", "max", "old code until", "longest without a page"),
        speed,
        f"goal: median below {GOAL_MEDIAN:g}, p95 below {GOAL_P95:g}; where pages take their time, "
        "so does the first one by new code",
    )
    show(
        "Rate in the second around a reload, as a share of that before it",
        ("pages/s", "median", "5 % below", "without reload", "5 % below"),
        rates,
        f"goal: {GOAL_RATE:.0%}",
    )
    columns = ("fetched", "twice", "twice per reload", "not stored", "labels of mixed code")
    show("Pages", columns, counts)


def show_comparison(runs: Iterable[Run]) -> None:
    """The same change made live in different ways."""
    rows = []
    for run in runs:
        f = figures(run.changes)
        rows.append(
            [
                run.name,
                str(f["changes"]),
                f"{f['first_median']:.2f} ({f['first_max']:.2f})",
                f"{f['gap_median']:.2f} ({f['gap_max']:.2f})",
                f"{run.twice / len(run.changes):.2f}",
            ]
        )
    columns = ("n", "first page by new code", "longest without a page", "twice per change")
    caption = "seconds, at the median (and at most)"
    show("The same change, made live by", columns, rows, caption)


def show_memory(samples: Sequence[Sample]) -> None:
    """The growth of the processes."""
    rows = []
    for name in Sample._fields[1:]:
        values = [getattr(sample, name) for sample in samples]
        sizes = (f"{number:,}" for number in (values[0], values[-1], max(values)))
        rows.append([name.replace("_", " "), *sizes, f"{slope(samples, name):+,.0f}"])
    columns = ("first", "last", "highest", "per 1,000 reloads")
    show(f"Memory (KiB) and descriptors over {len(samples)} reloads", columns, rows)


def as_dict(runs: Sequence[Run], samples: Sequence[Sample]) -> dict[str, Any]:
    """All figures, for JSON."""
    return {
        "runs": [{**run.as_dict(), "figures": figures(run.changes)} for run in runs],
        "memory": [sample._asdict() for sample in samples],
    }
