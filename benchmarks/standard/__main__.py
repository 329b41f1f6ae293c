"""``python -m benchmarks.standard [--quick] [--only NAME,…] [--rounds N] [--pages N]``"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.lab.job import run, say
from benchmarks.standard.entries import NAMES, chosen
from benchmarks.standard.report import write_files, write_text
from benchmarks.standard.rounds import JOB, Rounds
from benchmarks.standard.site import FEWEST

PAGES, ROUNDS = 20_000, 3
QUICK_PAGES = 1_000


def main() -> int:
    options = parsed()

    def measure(work: Path) -> int:
        rounds = Rounds(options.pages, chosen(options.only, options.workers), work)
        rounds.run(options.rounds)
        write_text(rounds)
        write_files(rounds, options.output)
        for failure in rounds.failures:
            say(JOB, f"FAILED {failure}")
        return 1 if rounds.failures else 0

    return run(JOB, measure)


def parsed() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.standard",
        description="Crawls the same site with Crawlframe, its peers and the bare limit in turn, "
        "checks that each stored every page, and compares what that took. Exit code 1 when one of "
        "them failed; the figures are those of the others.",
    )
    parser.add_argument("--pages", type=int, help=f"of the site ({PAGES})")
    parser.add_argument("--rounds", type=int, help=f"({ROUNDS})")
    parser.add_argument("--only", type=lambda text: text.split(","), default=NAMES, metavar="NAMES",
                        help=f"some of {','.join(NAMES)}")  # fmt: skip
    parser.add_argument("--workers", type=lambda text: sorted({int(n) for n in text.split(",")}),
                        default=[1, 2], metavar="N,N",
                        help="processes of those that can run several (1,2)")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help=f"one round, {QUICK_PAGES} pages")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    options.pages = options.pages or (QUICK_PAGES if options.quick else PAGES)
    options.rounds = options.rounds or (1 if options.quick else ROUNDS)
    unknown = [name for name in options.only if name not in NAMES]
    if unknown:
        parser.error(f"--only: there is no {', '.join(unknown)}; there are {', '.join(NAMES)}")
    if options.rounds < 1 or min(options.workers) < 1:
        parser.error("--rounds and --workers must be 1 or more")
    if options.pages < FEWEST:
        parser.error(f"--pages must be {FEWEST} or more")
    return options


if __name__ == "__main__":
    sys.exit(main())
