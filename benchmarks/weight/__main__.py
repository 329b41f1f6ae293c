"""``python -m benchmarks.weight [--exact]``"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.lab.job import keep, run, show
from benchmarks.weight.source import LIMITS, Figure, Source


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.weight",
        description="Prints how much there is to carry, beside the limit and the goal of each "
        "figure (benchmarks/weight/limits.toml). Exit code 1 when one is over its limit. Takes "
        "about two minutes.",
    )
    parser.add_argument("--exact", action="store_true", help="only what is counted, not measured")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()

    def measure(work: Path) -> int:
        counted = Source().figures()
        over = table("Counted in the sources", "exact", counted.items())
        figures = {name: figure.value for name, figure in counted.items()}
        if not options.exact:
            from benchmarks.weight.measured import measured

            figures |= (found := dict(measured(work)))
            pairs = ((name, Figure(value)) for name, value in found.items())
            over += table("Measured on this machine", "measured", pairs)
        keep("weight", figures, options.output)
        return 1 if over else 0

    return run("weight", measure)


def table(title: str, section: str, figures: Iterable[tuple[str, Figure]]) -> int:
    """Prints the figures of a section of the limits, and returns how many are over theirs."""
    over, rows = 0, []
    for name, (value, where) in figures:
        limit, goal = (LIMITS[section][name][key] for key in ("limit", "goal"))
        over += value > limit
        note = f"OVER ITS LIMIT {where}" if value > limit else where
        numbers = (f"{number:,.2f}".removesuffix(".00") for number in (value, limit, goal))
        rows.append([name, *numbers, note])
    show(title, ("today", "limit", "goal", ""), rows)
    return over


if __name__ == "__main__":
    sys.exit(main())
