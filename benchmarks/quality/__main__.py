"""``python -m benchmarks.quality [--quick]``"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.lab.job import run, say, show
from benchmarks.lab.results import write
from benchmarks.quality.faults import FAULTS
from benchmarks.quality.trial import Result, history, plan

HISTORIES, QUICK = 60, 20
TUNED, REPORTED = 0, 2000  # first seeds: those on which the limits were chosen, and fresh ones
SOON = 0.05  # of a run
FEW_PAGES = 3  # more than that, in a short run
RECALL, FALSE_ALARMS = 0.95, 0.01


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.quality",
        description="60 histories of 12 to 16 runs each, over simulated sites of five shapes, go "
        "through the profiles and the judge of the service. Half of them end with a run that has a "
        "fault. How many faults are found, how soon, and how many good runs are blamed? Once with "
        "the seeds on which the limits were chosen, and once with others. About three minutes.",
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} histories")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    count = QUICK if options.quick else HISTORIES
    return run("quality", partial(measure, count, options.output))


def measure(count: int, output: Path | None, work: Path) -> int:
    parts = {"tuned on": results(TUNED, count), "reported": results(REPORTED, count)}
    columns = ("faults", "found", "recall", "good runs", "blamed", "share", "in 5 %", "or 3 pages",
               "median")  # fmt: skip
    rows = [[name, *overall(found)] for name, found in parts.items()]
    caption = (
        "In 5 %: of the run, after the fault begins; or 3 pages: within 5 % or 3 pages; median: of "
        "these delays. Of faults that show in the pages that are there; the others show at the end."
    )
    show("Quality of runs", columns, rows, caption)
    reported = parts["reported"]
    show("By fault", ("faults", "found", "median delay", "longest"), by_fault(reported))
    path = write("quality", {name: figures(found) for name, found in parts.items()}, output)
    say("quality", f"figures: {path}")
    summary = figures(reported)
    good = summary["recall"] >= RECALL and summary["false_alarms"] <= FALSE_ALARMS
    return 0 if good else 1


def results(first: int, count: int) -> list[Result]:
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return [one for found in pool.map(_history, plan(first, count)) for one in found]


def _history(planned: tuple[int, str]) -> list[Result]:
    return [*history(*planned)]


def figures(found: Iterable[Result]) -> dict[str, Any]:
    """Recall, and the share of good runs that were blamed; delays are parts of a run."""
    found = [*found]
    bad = [one for one in found if one.fault]
    good = [one for one in found if not one.fault]
    seen = [one for one in bad if one.is_found]
    there = [one for one in seen if not one.is_missing]
    shown = [one.delay for one in there]
    soon = [one for one in there if one.delay <= SOON or one.delay * one.pages < FEW_PAGES + 0.5]
    return {
        "faults": len(bad),
        "found": len(seen),
        "recall": len(seen) / len(bad),
        "good_runs": len(good),
        "blamed": sum(one.is_found for one in good),
        "false_alarms": sum(one.is_found for one in good) / len(good),
        "shown": len(shown),
        "within_5_percent": sum(delay <= SOON for delay in shown),
        "soon": len(soon),
        "median_delay": median(shown) if shown else None,
        "missed": [[one.seed, one.shape, one.fault] for one in bad if not one.is_found],
    }


def overall(found: Sequence[Result]) -> list[str]:
    made = figures(found)
    return [
        f"{made['faults']}",
        f"{made['found']}",
        f"{made['recall']:.3f}",
        f"{made['good_runs']}",
        f"{made['blamed']}",
        f"{made['false_alarms']:.2%}",
        f"{made['within_5_percent']} of {made['shown']}",
        f"{made['soon']} of {made['shown']}",
        f"{made['median_delay']:.1%}",
    ]


def by_fault(found: Sequence[Result]) -> list[list[str]]:
    rows = []
    for kind in FAULTS:
        of_kind = [one for one in found if one.fault == kind]
        delays = [one.delay for one in of_kind if one.is_found]
        times = [f"{median(delays):.1%}", f"{max(delays):.1%}"] if delays else ["-", "-"]
        rows.append([kind, f"{len(of_kind)}", f"{len(delays)}", *times])
    return rows


if __name__ == "__main__":
    sys.exit(main())
