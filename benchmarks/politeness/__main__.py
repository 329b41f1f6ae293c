"""``python -m benchmarks.politeness [--quick] [--scenes NAME,…]``"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.lab.job import run, say
from benchmarks.politeness import trials
from benchmarks.politeness.report import write_files, write_text
from benchmarks.politeness.scenes import scenes
from benchmarks.politeness.throttling import Run, throttling

JOB = "politeness"
PARTS = ["throttling", "trials"]
TOLD = 10  # faults of a trial that are printed
SCENES = [scene.name for scene in scenes(quick=True)]


def main() -> int:
    options = parsed()
    return run(JOB, lambda work: measure(options, work))


def parsed() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{JOB}",
        description="Crawls simulated servers with limits, and judges that from the servers' log; "
        "then many hosts with a robots.txt, where not a single fault is allowed. Exit code 1 when "
        "a goal was missed. Takes about twenty minutes.",
    )
    parser.add_argument("--scenes", type=lambda text: text.split(","), default=SCENES,
                        metavar="NAMES", help=f"some of {','.join(SCENES)}")  # fmt: skip
    parser.add_argument("--parts", type=lambda text: text.split(","), default=PARTS,
                        metavar="NAMES", help=f"some of {','.join(PARTS)}")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    for option, known in (("scenes", SCENES), ("parts", PARTS)):
        if unknown := [name for name in getattr(options, option) if name not in known]:
            parser.error(
                f"--{option}: there is no {', '.join(unknown)}; there are {', '.join(known)}"
            )
    return options


def measure(options: argparse.Namespace, work: Path) -> int:
    runs = _throttling(options, work) if "throttling" in options.parts else []
    faults = _trials(options.quick, work) if "trials" in options.parts else {}
    write_files(runs, scenes(options.quick), faults, options.output)
    return 1 if any(faults.values()) or any(run.problems for run in runs) else 0


def _trials(quick: bool, work: Path) -> dict[str, list[str]]:
    ours = trials.all_of_them(quick)
    say(JOB, "; ".join(trial.title for trial in ours))
    place = work / "trials"
    place.mkdir()
    faults = trials.conduct(ours, place, quick)
    for name, found in faults.items():
        say(JOB, f"{name}: {'no fault' if not found else f'{len(found)} faults'}")
        for fault in found[:TOLD]:
            say(JOB, f"  {fault}")
    return faults


def _throttling(options: argparse.Namespace, work: Path) -> list[Run]:
    chosen = [scene for scene in scenes(options.quick) if scene.name in options.scenes]
    say(JOB, f"{len(chosen)} scenes")
    runs = throttling(chosen, work)
    write_text(runs, chosen)
    for one in runs:
        if one.problems:
            say(JOB, f"{one.scene}: {'; '.join(one.problems)}")
    return runs


if __name__ == "__main__":
    sys.exit(main())
