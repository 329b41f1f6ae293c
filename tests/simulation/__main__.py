"""``python -m tests.simulation --help``"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from time import process_time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.cluster import Setup

DESCRIPTION = """Runs a whole cluster in this process, on simulated time, and judges whether its
promises held. A seed that fails is run again with fewer faults until each of them is needed. The
last line is one JSON object. Exit code 1 when a promise did not hold."""
TELL_EVERY = 60.0  # seconds between two lines of progress
EACH_DEFECT = 600.0  # seconds of CPU time for finding a planted defect


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=DESCRIPTION)
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--seed", type=int, help="run this one, and print its timeline")
    extent.add_argument("--seeds", type=int, default=0, help="how many")
    extent.add_argument("--minutes", type=float, default=0.0, help="as many as fit")
    extent.add_argument("--hours", type=float, default=0.0, help="as many as fit")
    parser.add_argument("--first", type=int, help="the first of several seeds, 1 by default")
    parser.add_argument("--faults", type=int, default=8, help="of each seed")
    extent.add_argument("--defects", nargs="*", metavar="NAME", help="find planted ones; all")
    options = parser.parse_args(arguments)
    if options.first is not None and (options.seed is not None or options.defects is not None):
        parser.error("--first goes with --seeds, --minutes or --hours")
    options.first = options.first or 1
    if options.seed is not None:
        options.first, options.seeds = options.seed, 1
    elif not options.seeds and not options.minutes and not options.hours:
        options.seeds = 20
    return options


def main() -> None:
    options = parse(sys.argv[1:])
    if os.environ.get("PYTHONHASHSEED") != "0":  # so that sets have one order
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    from tests.simulation import bootstrap

    with bootstrap.prepared() as setup:
        if options.defects is not None:
            code = find_defects(setup, options.defects, options.faults)
        else:
            code = run_seeds(setup, options)
    sys.stdout.flush()
    from tests.simulation.interpreter import real_exit

    real_exit(code)  # Python's own end waits for threads that are simulated


def run_seeds(setup: Setup, options: argparse.Namespace) -> int:
    from tests.simulation import campaign
    from tests.simulation.interpreter import real_clock

    begun = told = real_clock()
    totals = campaign.Totals()
    seconds = 60 * options.minutes + 3600 * options.hours

    def goes_on(done: int) -> bool:
        return real_clock() - begun < seconds if seconds else done < options.seeds

    for result in campaign.run(setup, options.first, options.faults, goes_on):
        totals.add(result)
        if real_clock() > told + TELL_EVERY:
            told = real_clock()
            failed = f"{totals.violations} of {totals.seeds} seeds failed"
            print(f"{failed}, {totals.simulated_s:.0f} s simulated", file=sys.stderr, flush=True)
        if options.seed is not None:
            print("\n".join(result.timeline))
        if not result.violations:
            continue
        print(f"seed {result.seed} fails:", *result.violations[:5], sep="\n  ", flush=True)
        if not seconds or real_clock() - begun < seconds:
            shortest = campaign.shrink(setup, result, lambda text: print(f"  {text}", flush=True))
            print("the faults that it needs:", *map(str, shortest.faults), sep="\n  ", flush=True)
    print(json.dumps(totals.as_json(real_clock() - begun)))
    return int(totals.violations > 0)


def find_defects(setup: Setup, names: Sequence[str], number: int) -> int:
    from tests.simulation import campaign
    from tests.simulation.defects import DEFECTS, planted

    if unknown := [name for name in names if name not in DEFECTS]:
        print(f"no such defects: {unknown}; there are: {', '.join(DEFECTS)}", file=sys.stderr)
        return 2
    missed = []
    for name in names or DEFECTS:
        begun, found, seed = process_time(), "", 0
        while not found and process_time() - begun < EACH_DEFECT:
            seed += 1
            with planted(name):
                result = campaign.attempt(setup, seed, number)
            # It counts if the same seed is right without the defect.
            if result.violations and not campaign.attempt(setup, seed, number).violations:
                found = result.violations[0].splitlines()[0][:120]
        if found:
            print(f"{name}: seed {seed}, {process_time() - begun:.0f} s: {found}", flush=True)
        else:
            missed.append(name)
            print(f"{name}: NOT found by {seed} seeds", flush=True)
    print(json.dumps({"defects": len(names or DEFECTS), "missed": missed}))
    return int(bool(missed))


if __name__ == "__main__":
    main()
