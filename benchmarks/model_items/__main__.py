"""``python -m benchmarks.model_items [--quick] [--pages N] [--rounds N]``"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from pathlib import Path

from benchmarks.lab.chart import Bar, Panel
from benchmarks.lab.job import keep, run, say, show
from benchmarks.lab.node import environment, migrated
from benchmarks.lab.postgres import Postgres
from benchmarks.lab.results import Spread

JOB = "model_items"
APP = "benchmarks.model_items.shop"
PAGES, QUICK_PAGES, ROUNDS = 6_400, 640, 5
GOAL = 2.0  # times the cost of a JSON item


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.model_items",
        description="Makes, encodes and commits pages of ten items on a real PostgreSQL: items as "
        "dicts, as instances of a Django model, and as Upserts of them; and the same pages without "
        "items, so that what an item costs is known. Takes two minutes.",
    )
    parser.add_argument("--pages", type=int, help=f"({PAGES:,})")
    parser.add_argument("--rounds", type=int, help=f"({ROUNDS})")
    parser.add_argument("--quick", action="store_true", help=f"one round, {QUICK_PAGES} pages")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    pages = options.pages or (QUICK_PAGES if options.quick else PAGES)
    rounds = options.rounds or (1 if options.quick else ROUNDS)
    if pages < QUICK_PAGES or rounds < 1:
        parser.error(f"--pages must be {QUICK_PAGES} or more, --rounds 1 or more")
    return run(JOB, partial(measure, pages, rounds, options.output))


def measure(pages: int, rounds: int, output: Path | None, work: Path) -> int:
    os.environ["CRAWLFRAME_APPS"] = APP
    with Postgres() as postgres:
        dsn = migrated(postgres, work / "tables", CRAWLFRAME_APPS=APP)
        os.environ.update(environment(work / "var", dsn, "redis://127.0.0.1:1"))
        os.environ.update(CRAWLFRAME_APPS=APP, DJANGO_SETTINGS_MODULE="crawlservice.settings")
        import django

        django.setup()
        from benchmarks.model_items.storing import KINDS, NONE, Cost, item_cost, storing

        kinds, costs = [*KINDS], list[Cost]()
        storing("JSON", QUICK_PAGES, postgres)  # everything is imported, and connected
        for number in range(rounds):
            first = number % len(kinds)
            for kind in kinds[first:] + kinds[:first]:
                costs.append(storing(kind, pages, postgres))
            say(JOB, f"round {number + 1} of {rounds}")
        items = [kind for kind in kinds if kind != NONE]
        spreads = {kind: item_cost(costs, kind) for kind in items}
    _show(spreads)
    figures = {"pages": pages, "costs": [one._asdict() for one in costs]}
    keep(JOB, figures, "What an item costs", _panels(spreads), output)
    return 0


def _show(spreads: dict[str, tuple[Spread, Spread]]) -> None:
    plain = spreads["JSON"][0].median
    rows = [
        [kind, ours.text(".1f"), f"{ours.median / plain:.2f}", theirs.text(".1f")]
        for kind, (ours, theirs) in spreads.items()
    ]
    show(
        "What an item of eight fields costs: microseconds of processor time",
        ["worker", "times JSON", "PostgreSQL"],
        rows,
        f"Medians, least and most. Goal for a model item in the worker: at most {GOAL:.0f} times "
        "JSON. Every model item is stored as JSON, too.",
    )


def _panels(spreads: dict[str, tuple[Spread, Spread]]) -> list[Panel]:
    bars = [
        Bar(kind, {"worker": ours.median, "PostgreSQL": theirs.median})
        for kind, (ours, theirs) in spreads.items()
    ]
    return [Panel("Processor time of an item", "microseconds", bars)]


if __name__ == "__main__":
    sys.exit(main())
