"""``python -m benchmarks.growth [--only ROW,…] [--rounds N] [--full] [--quick]``"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path

from benchmarks.growth.cell import Cell, Cost, Scale
from benchmarks.growth.table import Line, goals, rows
from benchmarks.growth.web import Web
from benchmarks.lab.job import keep, run, say, show
from benchmarks.lab.nginx import Nginx
from benchmarks.lab.node import migrated
from benchmarks.lab.postgres import Postgres

JOB = "growth"
PAGES, ROUNDS = 4_000, 3
SIZES = {
    "queued": [1_000, 100_000],
    "tasks": [1, 100, 10_000],
    "hosts": [10, 10_000, 1_000_000],
    "ledger": [100_000, 10_000_000],
}
FULL = {"queued": [10_000_000], "ledger": [100_000_000]}  # more, with --full
QUICK = {"queued": [1_000, 20_000], "tasks": [1, 100], "hosts": [10, 1_000], "ledger": [0, 100_000]}
LEGEND = (
    "CPU of a page, median (least-most) of the rounds, and its ratio to the first size in the same "
    "round. All else is 100,000 requests of 1 task on 1,000 hosts. Every page is a connection; of "
    "its 21 links 17 are the same on all pages, 3 anywhere, 1 new."
)


def main() -> int:
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{JOB}", description=__doc__)
    parser.add_argument("--only", type=lambda text: text.split(","), default=[*SIZES],
                        metavar="ROWS", help=f"some of {','.join(SIZES)}")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="(%(default)s)")
    parser.add_argument("--full", action="store_true",
                        help="also 10,000,000 queued and 100,000,000 rows (60 GB)")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="one round, smaller sizes")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    if unknown := {*options.only} - {*SIZES}:
        parser.error(f"--only: there is no {', '.join(sorted(unknown))}; there are {[*SIZES]}")
    return run(JOB, lambda work: measure(options, work))


def measure(options: argparse.Namespace, work: Path) -> int:
    lines: list[Line] = []
    (work / "site").mkdir()
    closing = "    keepalive_timeout 0;\n"  # as many connections with many hosts as with few
    with (
        Nginx(work / "site", work, log=False, locations=closing, everywhere=True) as nginx,
        Postgres() as postgres,
    ):
        (work / "site" / "page.html").write_text(Web(nginx.port, 1, 1, 1).page())
        tables = migrated(postgres, work / "migrate")
        for name in options.only:
            more = FULL.get(name, []) if options.full else []
            sizes = QUICK[name] if options.quick else SIZES[name] + more
            with ExitStack() as cells:
                filled: dict[int, Cell] = {}
                for size in sizes:
                    say(JOB, f"filling: {size:,} {name}")
                    place = work / f"{name}-{size}"
                    scale = Scale()._replace(**{name: size})
                    cell = Cell(scale, nginx.port, place, postgres, tables)
                    filled[size] = cells.enter_context(cell)
                costs = rounds(name, filled, options)
            lines += [Line(name, n, cell.mib, costs[n]) for n, cell in filled.items()]
    show("How cost grows", ("node us", "times", "Redis us", "times", "PostgreSQL us", "Redis MiB"),
         rows(lines), LEGEND)  # fmt: skip
    print("\n".join(told := goals(lines)))
    keep(JOB, {"lines": [line._asdict() for line in lines], "goals": told}, options.output)
    return 0


def rounds(name: str, cells: dict[int, Cell], options: argparse.Namespace) -> dict[int, list[Cost]]:
    """The costs by size. Each round visits all sizes, so that a slow moment hits them alike."""
    costs: dict[int, list[Cost]] = {size: [] for size in cells}
    for number in range(1 if options.quick else options.rounds):
        for size, cell in cells.items():
            cost = cell.measure(1_000 if options.quick else PAGES)
            costs[size].append(cost)
            say(JOB, f"round {number + 1}: {size:,} {name}: {cost.node:.0f} us a page")
    return costs


if __name__ == "__main__":
    sys.exit(main())
