"""``python -m benchmarks.api [--quick] [--rate N] [--seconds N] [--latency S] [--rounds N]``"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.api.web import Web
from benchmarks.lab.chart import Bar, Panel
from benchmarks.lab.counted import CountedSite
from benchmarks.lab.job import keep, run, say, show
from benchmarks.lab.node import CHECKOUT, Node, migrated
from benchmarks.lab.postgres import Postgres
from benchmarks.lab.redis import RedisServer
from benchmarks.lab.results import Spread
from benchmarks.standard.site import Site

JOB = "api"
ALONE, BESIDE = "alone", "while others submit"
IN_FLIGHT = 64
FASTEST = 3000  # pages a second of a site without latency
GOAL = 0.1  # of its speed that the crawl may lose


class Run(NamedTuple):
    """One crawl. ``took``: seconds of each submission; CPU seconds of node and web."""

    kind: str
    pages: int
    rate: float  # pages a second, as the site answered them
    node: float
    web: float
    took: list[float]
    refused: int
    late: float  # seconds by which the latest submission was sent late

    @property
    def cpu_per_page(self) -> float:
        """CPU milliseconds of the node per page."""
        return 1000 * self.node / self.pages

    def share(self, percent: int) -> float:
        """Milliseconds within which this share of the submissions was answered."""
        return 1000 * statistics.quantiles(self.took, n=100)[percent - 1]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.api",
        description="A crawl on one node of one worker, alone and while tasks are submitted "
        "through the web, in turn. Exit code 1 when it loses more than a tenth of its speed.",
    )
    parser.add_argument("--rate", type=int, default=100, help="submissions a second (100)")
    parser.add_argument("--seconds", type=int, help="of submitting (60)")
    parser.add_argument(
        "--latency", type=float, default=0.2, help="seconds in which the site answers (0.2)"
    )
    parser.add_argument("--rounds", type=int, help="(3)")
    parser.add_argument("--quick", action="store_true", help="one round of 10 seconds")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    options.seconds = options.seconds or (10 if options.quick else 60)
    options.rounds = options.rounds or (1 if options.quick else 3)
    if min(options.rate, options.seconds, options.rounds) < 1 or options.latency < 0:
        parser.error("--rate, --seconds and --rounds must be above 0")
    return run(JOB, lambda work: measure(options, work))


def measure(options: argparse.Namespace, work: Path) -> int:
    runs: list[Run] = []
    speed = IN_FLIGHT / options.latency if options.latency else FASTEST
    with ExitStack() as stack:
        root = work / "root"
        site = CountedSite(root, options.latency)
        job = Site(round(speed * options.seconds * 1.2), site.url)
        job.write(root)
        postgres = stack.enter_context(Postgres())
        redis = stack.enter_context(RedisServer(work / "redis"))
        stack.enter_context(site)
        template = migrated(postgres, work / "tables")
        for number in range(options.rounds):
            for kind in (ALONE, BESIDE)[:: -1 if number % 2 else 1]:
                redis.flush()
                dsn = postgres.new_database(template)
                try:
                    servers = dsn, redis.url
                    runs.append(crawl(kind, site, job.start, servers, work / "node", options))
                finally:
                    postgres.drop(dsn)
                    shutil.rmtree(work / "node")
                said = f"round {number + 1} of {options.rounds}, {kind}"
                say(JOB, f"{said}: {runs[-1].rate:,.0f} pages/s")
    lost = _show(runs, options)
    figures = {"options": {**vars(options), "output": None}, "lost": lost._asdict(),
               "runs": [one._asdict() for one in runs]}  # fmt: skip
    keep(JOB, figures, f"{options.rate} submissions a second", _panels(runs), options.output)
    return 1 if lost.median > GOAL else 0


def crawl(
    kind: str, site: CountedSite, start: str, servers: tuple[str, str], var: Path, options: Any
) -> Run:
    """Crawls the site once, with the web at its side, for as long as submitting takes."""
    node = Node(var, *servers, spiders="benchmarks.api.spiders", concurrency=IN_FLIGHT)
    with node, Web(var, *servers) as web:
        node.submit("crawl", url=start)
        site.take()
        before = node.run.cpu_seconds(), web.run.cpu_seconds()
        data: dict[str, Any] = {"took": [], "refused": [], "late": 0.0}
        if kind == ALONE:
            time.sleep(options.seconds)
        else:
            data = _submit(web.host, web.port, web.token, options.rate, options.seconds)
        answered = site.take()
        after = node.run.cpu_seconds(), web.run.cpu_seconds()
    used, served = (end - begin for begin, end in zip(before, after, strict=True))
    took, refused = data["took"], len(data["refused"])
    return Run(kind, answered.pages, answered.steady(), used, served, took, refused, data["late"])


def _submit(*words: object) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.api.submitter", *map(str, words)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the submitter failed: {done.stderr[-2000:]}")
    data: dict[str, Any] = json.loads(done.stdout)
    return data


def _spread(runs: list[Run], kind: str, value: Callable[[Run], float]) -> Spread:
    return Spread.of(value(one) for one in runs if one.kind == kind)


def _lost(runs: list[Run]) -> Spread:
    """The share of its speed that the crawl lost, in each round."""
    alone, beside = ([one.rate for one in runs if one.kind == kind] for kind in (ALONE, BESIDE))
    return Spread.of(1 - slow / fast for fast, slow in zip(alone, beside, strict=True))


def _show(runs: list[Run], options: argparse.Namespace) -> Spread:
    lost = _lost(runs)
    rows = [
        [
            kind,
            _spread(runs, kind, attrgetter("rate")).text(".0f"),
            _spread(runs, kind, attrgetter("cpu_per_page")).text(".3f"),
            _spread(runs, kind, attrgetter("web")).text(".1f"),
        ]
        for kind in (ALONE, BESIDE)
    ]
    some = [one for one in runs if one.kind == BESIDE]
    answered = [Spread.of(one.share(percent) for one in some).text(".0f") for percent in (50, 99)]
    show(
        f"{options.rate} submissions a second for {options.seconds} s, pages after "
        f"{options.latency * 1000:g} ms, {IN_FLIGHT} in flight",
        ["pages/s", "CPU ms/page of the node", "CPU s of the web"],
        rows,
        f"Lost: {lost.text('.1%')}. Half of the submissions were answered within {answered[0]} ms, "
        f"99 of 100 within {answered[1]} ms; {sum(one.refused for one in some)} were refused. They "
        f"were sent up to {max(one.late for one in some):.2f} s late.",
    )
    return lost


def _panels(runs: list[Run]) -> list[Panel]:
    bars = []
    for kind in (ALONE, BESIDE):
        rate = _spread(runs, kind, attrgetter("rate"))
        bars.append(Bar(kind, {"": rate.median}, rate.low, rate.high))
    return [Panel("Speed of the crawl (more is better)", "pages per second", bars)]


if __name__ == "__main__":
    sys.exit(main())
