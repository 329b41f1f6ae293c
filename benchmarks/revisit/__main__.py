"""``python -m benchmarks.revisit [--pages N] [--days N] [--seeds N] [--server]``"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.lab import results
from benchmarks.lab.chart import Line, Panel
from benchmarks.lab.job import keep, run, say, show
from benchmarks.revisit.optimal import Optimal
from benchmarks.revisit.rivals import Learned, Nutch, known_rates, uniform
from benchmarks.revisit.server import measure as watched
from benchmarks.revisit.world import DAYS, Policy, Run, Signals, Site
from benchmarks.revisit.world import run as simulate
from tests.revisit.allotment import shares

SHARES = (0.05, 0.2, 1.0)  # budgets, by the mean number of changes
PAGES = 2000
SEED = 33  # of the first population: that of the table in docs/howto/watch.md


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.revisit",
        description="Pages change as Poisson processes (lognormal rates, Pareto importance), and "
        "are visited within a budget. Compares the share of the time in which they are up to "
        "date, by importance, with other policies. Takes some minutes.",
    )
    parser.add_argument("--pages", type=int, default=PAGES, help=f"({PAGES:,})")
    parser.add_argument("--days", type=int, default=DAYS, help=f"simulated ({DAYS})")
    parser.add_argument("--seeds", type=int, default=3, help="populations (3)")
    parser.add_argument(
        "--server",
        action="store_true",
        help="a real server and a real node, whose clock is driven; about a second for each hour "
        "of the simulated time, with each budget",
    )
    parser.add_argument(
        "--budget",
        type=float,
        default=0.2,
        help="with --server: by the mean number of changes (0.2)",
    )
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    for name in ("pages", "days", "seeds"):
        if not 1 <= getattr(options, name) <= 10**6:
            parser.error(f"--{name} must be 1 to 1,000,000")
    if options.server:
        return run("revisit", lambda work: serve(options, work))
    return run(
        "revisit",
        lambda work: measure(options.pages, options.days, options.seeds, options.output),
    )


Made = tuple[str, Callable[[Site, float], Policy], Signals | None]

POLICIES: tuple[Made, ...] = (
    ("uniform", uniform, None),
    ("Nutch, adaptive", lambda site, budget: Nutch(_even(site, budget)), None),
    ("Azar et al., learned", Learned, None),
    ("ours", Optimal, None),
    ("ours, sitemaps 0.8/0.6", Optimal, Signals()),
    ("ours, sitemaps that lie", Optimal, Signals(lies=True)),
    ("Azar et al., rates known", known_rates, None),
)


def serve(options: argparse.Namespace, work: Path) -> int:
    """Compares a node with the simulation of the same site, and with the optimum."""
    site = Site.of(options.pages, SEED)
    budget = options.budget * sum(site.rates)
    real = watched(site, options.budget, options.days, work)
    rows = [("a node", f"{real.fresh:.3f}", f"{real.late:.3f}", f"{real.visits:,}")]
    for name, make, signals in POLICIES:
        if signals is None:
            one = simulate(site, make(site, budget), budget, options.days)
            rows.append((f"{name}, simulated", *_numbers(one)))
    best = site.fresh(shares(site.rates, site.importance, budget))
    rows.append(("in theory, rates known", f"{best:.3f}", "", ""))
    show(
        f"{options.pages:,} pages on a server, {options.days} days, a budget of "
        f"{options.budget:.0%} of the changes: share of the time up to date, weighted",
        ["all", "second half", "visits"],
        rows,
    )
    figures = {"real": vars(real), "optimum": best, "pages": options.pages, "days": options.days}
    results.write("revisit-server", {"machine": results.machine(), **figures}, options.output)
    return int(real.visits > 1.02 * budget * options.days + 1)


def _numbers(one: Run) -> tuple[str, str, str]:
    return f"{one.fresh:.3f}", f"{one.late:.3f}", f"{one.visits:,}"


def _even(site: Site, budget: float) -> list[float]:
    return [budget / len(site.rates)] * len(site.rates)


def measure(pages: int, days: int, seeds: int, output: Path | None) -> int:
    found: dict[str, list[list[Run]]] = {name: [] for name, *_ in POLICIES}
    ideals: list[list[float]] = []
    for seed in range(SEED, SEED + seeds):
        site = Site.of(pages, seed)
        budgets = [share * sum(site.rates) for share in SHARES]
        ideals.append([site.fresh(shares(site.rates, site.importance, some)) for some in budgets])
        for name, make, signals in POLICIES:
            found[name].append(
                [simulate(site, make(site, some), some, days, signals=signals) for some in budgets]
            )
            say("revisit", f"population {seed}: {name}")
    rows = [(name, *_cells(runs)) for name, runs in found.items()]
    rows.append(("in theory, rates known", *_cells_of([ideals[0], *ideals])))
    columns = [f"{share:.0%}{more}" for share in SHARES for more in ("", f", {seeds} sites")]
    show(
        f"{pages:,} pages, {days} days: share of the time up to date, weighted, by budget",
        columns,
        rows,
        "Budgets by the mean number of changes. Rates are unknown at the start, except in the "
        f"last two rows. First the population of seed {SEED}, then the mean of all.",
    )
    figures = {
        "pages": pages,
        "days": days,
        "fresh": {name: [[r.fresh for r in runs] for runs in all_] for name, all_ in found.items()},
        "late": {name: [[r.late for r in runs] for runs in all_] for name, all_ in found.items()},
        "optimum": ideals,
    }
    lines = [
        Line(name, [(100 * n, one.fresh) for n, one in zip(SHARES, runs[0], strict=True)])
        for name, runs in found.items()
    ]
    panel = Panel(
        "Share of the time up to date", "budget, % of the changes", lines=lines, y="share"
    )
    keep("revisit", figures, "Coming back in time", [panel], output)
    return 0


def _cells(runs: list[list[Run]]) -> Iterator[str]:
    fresh = [[one.fresh for one in some] for some in runs]
    return _cells_of([fresh[0], *fresh])


def _cells_of(table: list[list[float]]) -> Iterator[str]:
    first, *all_ = table
    for column, value in enumerate(first):
        yield f"{value:.3f}"
        yield f"{sum(row[column] for row in all_) / len(all_):.3f}"


if __name__ == "__main__":
    sys.exit(main())
