"""``python -m benchmarks.guard [--against COMMIT] [--strict] [--pairs N] [--quick] [--record]``"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

from benchmarks.guard.rule import Pair, Ratios
from benchmarks.guard.side import Side, make_trees
from benchmarks.lab.job import keep, run, say, show
from benchmarks.lab.nginx import Nginx
from benchmarks.lab.node import CHECKOUT
from benchmarks.lab.postgres import Postgres
from benchmarks.reload.project import git
from benchmarks.standard.site import Site

JOB = "guard"
RECORDED = Path(__file__).with_name("commit.txt")
PAGES, PAIRS = 2_000, 10
TITLES = {
    "page": "CPU of a page of the standard job, us",
    "redis": "CPU of Redis for it, us",
    "command": "CPU of `task list --help`, ms",
    "reload": "from a change until it is live, ms",
}
LEGEND = (
    "old, new: medians. ratio: new / old of the pairs, median (quartiles). Suspect: the median is "
    "above 1.05, and three quarters of the pairs are above 1. Worse: so twice."
)
Figures = dict[str, list[Pair]]


def main() -> int:
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{JOB}", description=__doc__)
    parser.add_argument("--against", metavar="COMMIT", help="instead of the recorded one")
    parser.add_argument("--strict", action="store_true", help="exit code 1 if a figure is worse")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="(%(default)s)")
    parser.add_argument("--quick", action="store_true", help="2 pairs of 500 pages: says little")
    parser.add_argument("--record", action="store_true", help="record HEAD, and measure nothing")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    if options.pairs < 2:
        parser.error("--pairs must be 2 or more")
    return run(JOB, lambda work: record() if options.record else measure(options, work))


def record() -> int:
    RECORDED.write_text(git(CHECKOUT, "rev-parse", "HEAD") + "\n")
    say(JOB, f"{RECORDED.relative_to(CHECKOUT)} names HEAD; commit it")
    return 0


def measure(options: argparse.Namespace, work: Path) -> int:
    commit = options.against or RECORDED.read_text().strip()
    pages, pairs = (500, 2) if options.quick else (PAGES, options.pairs)
    say(JOB, f"against {git(CHECKOUT, 'log', '-1', '--format=%h %cs %s', commit)}")
    with Postgres() as postgres, Nginx(work / "site", work, log=False) as nginx:
        site = Site(pages, nginx.url)
        site.write(work / "site")
        trees = make_trees(commit, work)
        if len({(tree / "requirements.lock").read_text() for tree in trees}) > 1:
            say(JOB, "requirements.lock differs: both sides run with the packages installed here")
        old, new = (Side(tree, postgres) for tree in trees)
        first = sit(old, new, site, pairs)
        report(first, f"This checkout beside {commit[:12]}, {pairs} pairs")
        second = sit(old, new, site, pairs) if suspects(first) else {}
    if second:
        report(second, "Measured again")
    names = worse(first, second)
    for name in names:
        say(JOB, f"WORSE: {TITLES[name]}")
    keep(JOB, {"against": commit, "first": first, "second": second, "worse": names}, options.output)
    return 1 if names and options.strict else 0


def sit(old: Side, new: Side, site: Site, pairs: int) -> Figures:
    """One sitting: old, new, new, old and so on, so that drift of the machine cancels."""
    found: Figures = {name: [] for name in TITLES}
    for number in range(pairs):
        order = (new, old) if number % 2 else (old, new)
        values = {side: side.measure(site) for side in order}
        for name, figures in found.items():
            figures.append(Pair(values[old][name], values[new][name]))
        ratios = (f"{name} {figures[-1].ratio:.2f}" for name, figures in found.items())
        say(JOB, f"pair {number + 1} of {pairs}: {', '.join(ratios)}")
    return found


def suspects(figures: Figures) -> set[str]:
    return {name for name, pairs in figures.items() if Ratios.of(pairs).suspect}


def worse(first: Figures, second: Figures) -> list[str]:
    """The figures that were suspect in both sittings."""
    return sorted(suspects(first) & suspects(second))


def report(figures: Figures, title: str) -> None:
    """Prints the table of a sitting."""
    rows = []
    for name, pairs in figures.items():
        ratios = Ratios.of(pairs)
        medians = (statistics.median(side) for side in zip(*pairs, strict=True))
        above = f"{ratios.above} of {len(pairs)}"
        verdict = "suspect" if ratios.suspect else ""
        rows.append([TITLES[name], *(f"{m:.1f}" for m in medians), ratios.text(), above, verdict])
    show(title, ("old", "new", "ratio", "above 1", ""), rows, LEGEND)


if __name__ == "__main__":
    sys.exit(main())
