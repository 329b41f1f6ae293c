"""Report: the figures as tables, as JSON, and as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.reload.changes import Change, Run, median, percentile
from benchmarks.reload.memory import Growth, Sample, growth

GOAL_MEDIAN, GOAL_P95 = 0.5, 1.0  # seconds from the last write to the first page by new code
GOAL_RATE = 0.9  # of the rate before
COLOURS = {"edit": "#2166ac", "pull": "#b2182b"}
WIDTH, HEIGHT, MARGIN = 720, 260, 46


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


def print_reloads(console: Console, runs: Iterable[Run], slow: str) -> None:
    """The speed, and the cost for the crawl."""
    speed = _table("Seconds from the last write to the first page by new code")
    for name in ("n", "median", "p95", "max", "old code until", "longest without a page"):
        speed.add_column(name, justify="right")
    rates = _table("Rate in the second around a reload, as a share of that before it")
    for name in ("pages/s", "median", "5 % below", "without reload", "5 % below"):
        rates.add_column(name, justify="right")
    counts = _table("Pages")
    for name in ("fetched", "twice", "twice per reload", "not stored", "labels of mixed code"):
        counts.add_column(name, justify="right")
    for run in runs:
        for how in dict.fromkeys(change.how for change in run.changes):
            f = figures(run.of(how))
            times = ("first_median", "first_p95", "first_max", "old_code_until_median", "gap_max")
            speed.add_row(f"{run.name}, {how}", str(f["changes"]), *(f"{f[t]:.2f}" for t in times))
        f = figures(run.changes)
        shares = ("around_median", "around_p5", "control_median", "control_p5")
        rates.add_row(run.name, f"{f['rate']:.0f}", *(f"{f[s]:.0%}" for s in shares))
        each = f"{run.twice / len(run.changes):.2f}"
        counts.add_row(
            run.name, f"{run.fetched:,}", str(run.twice), each, str(run.lost), str(run.mixed)
        )
    speed.caption = (
        f"goal: median below {GOAL_MEDIAN:g}, p95 below {GOAL_P95:g}; "
        f"where {slow}, so does the first one by new code"
    )
    rates.caption = f"goal: {GOAL_RATE:.0%}"
    for table in (speed, rates, counts):
        console.print(table, "")


def print_comparison(console: Console, runs: Iterable[Run]) -> None:
    """The same change made live in different ways."""
    table = _table("The same change, made live by", "seconds, at the median (and at most)")
    for name in ("n", "first page by new code", "longest without a page", "twice per change"):
        table.add_column(name, justify="right")
    for run in runs:
        f = figures(run.changes)
        twice = f"{run.twice / len(run.changes):.2f}"
        if run.start_again:
            twice += f" ({run.start_again / len(run.changes):.2f} the start page)"
        table.add_row(
            run.name,
            str(f["changes"]),
            f"{f['first_median']:.2f} ({f['first_max']:.2f})",
            f"{f['gap_median']:.2f} ({f['gap_max']:.2f})",
            twice,
        )
    console.print(table, "")


def print_steps(console: Console, run: Run) -> None:
    """The time of each step."""
    table = _table("Log of a reload", "seconds after the last write, at the median")
    table.add_column("after", justify="right")
    for text, seconds in run.steps.items():
        table.add_row(text, f"{seconds:.3f}")
    table.add_row("first page", f"{median(change.first for change in run.changes):.3f}")
    console.print(table, "")


def print_memory(console: Console, samples: Sequence[Sample]) -> None:
    """The growth of the processes."""
    table = _table(f"Memory (KiB) and descriptors over {len(samples)} reloads")
    for name in ("first", "last", "highest", "per 1,000 reloads"):
        table.add_column(name, justify="right")
    for row in growth(samples):
        table.add_row(row.name.replace("_", " "), *_cells(row))
    console.print(table, "")


def _cells(row: Growth) -> list[str]:
    slope = "-" if row.per_thousand is None else f"{row.per_thousand:+,.0f}"
    return [*(f"{n:,}" for n in (row.first, row.last, row.highest)), slope]


def _table(title: str, caption: str = "") -> Table:
    table = Table(title=title, caption=caption or None, box=None, title_justify="left")
    table.pad_edge, table.caption_justify = False, "left"
    table.add_column("", no_wrap=True)
    return table


def as_dict(
    reloads: Sequence[Run], others: Sequence[Run], samples: Sequence[Sample]
) -> dict[str, Any]:
    """All figures, for JSON."""
    return {
        "runs": [
            {**run.as_dict(), "figures": figures(run.changes)}
            for run in (*reloads, *others)
            if run.changes
        ],
        "memory": [sample._asdict() for sample in samples],
        "growth": [row._asdict() for row in growth(samples)] if samples else [],
    }


def chart(runs: Sequence[Run]) -> str:
    """An SVG picture: each change of each run, by the time to its first page."""
    highest = max(1.1, *(change.first for run in runs for change in run.changes)) * 1.05
    parts = []
    for place, run in enumerate(runs):
        top = place * HEIGHT
        step = (WIDTH - 2 * MARGIN) / len(run.changes)

        def y(seconds: float, top: int = top) -> float:
            return top + HEIGHT - MARGIN - seconds / highest * (HEIGHT - 2 * MARGIN)

        parts.append(_text(MARGIN, top + MARGIN - 16, f"{run.name}: seconds to the first page"))
        for seconds in (0.0, GOAL_MEDIAN, GOAL_P95):
            dash = ' stroke-dasharray="4 4"' if seconds else ""
            parts.append(
                f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{y(seconds):.1f}" '
                f'y2="{y(seconds):.1f}" stroke="#999"{dash}/>'
            )
            parts.append(_text(8, y(seconds) + 4, f"{seconds:.1f}"))
        for number, change in enumerate(run.changes):
            parts.append(
                f'<circle cx="{MARGIN + (number + 0.5) * step:.1f}" cy="{y(change.first):.1f}" '
                f'r="3.5" fill="{COLOURS.get(change.how, "#333")}"/>'
            )
        for number, (how, colour) in enumerate(COLOURS.items()):
            x = MARGIN + 90 * number
            parts.append(f'<circle cx="{x}" cy="{top + HEIGHT - 20}" r="3.5" fill="{colour}"/>')
            parts.append(_text(x + 8, top + HEIGHT - 16, how))
    height = HEIGHT * len(runs)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/>'
        f"{''.join(parts)}</svg>\n"
    )


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.1f}">{text}</text>'
