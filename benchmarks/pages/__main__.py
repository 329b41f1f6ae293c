"""``python -m benchmarks.pages [--pages N] [--rounds N] [--only NAME,…] [--corpus DIRECTORY]``"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import psycopg2

from benchmarks.lab.job import keep, run, say, show
from benchmarks.lab.meter import Metered
from benchmarks.lab.node import CHECKOUT, Node, migrated
from benchmarks.lab.postgres import Postgres
from benchmarks.lab.redis import RedisServer
from benchmarks.lab.results import Spread
from benchmarks.pages.site import ON_HOST, SETS, Site, generated

JOB = "pages"
NAMES = ("crawlframe", "crawlframe-x2", "crawlframe-keep-all", "scrapy", "bare")
RUN_TIMEOUT = 3_600.0  # seconds


class Run(NamedTuple):
    """One crawl, without its start if that is known. CPU in seconds of all its processes."""

    cpu: float
    seconds: float
    peak: float  # MiB of all processes


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.add_argument("--pages", type=int, default=20_000, help="(20000)")
    parser.add_argument("--rounds", type=int, default=5, help="(5)")
    parser.add_argument("--quick", action="store_true", help="one round of 2,000 pages")
    parser.add_argument("--only", type=lambda text: text.split(","), default=NAMES, metavar="NAMES",
                        help=f"some of {','.join(NAMES)}")  # fmt: skip
    parser.add_argument("--corpus", type=Path, help="real pages, in place of generated ones")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    if unknown := {*options.only} - {*NAMES}:
        parser.error(f"--only: there is no {', '.join(unknown)}; there are {', '.join(NAMES)}")
    if options.quick:
        options.pages, options.rounds = 2_000, 1
    return run(JOB, lambda work: measure(options, work))


def measure(options: argparse.Namespace, work: Path) -> int:
    pages = [*(real(options.corpus) if options.corpus else generated(SETS * ON_HOST))]
    site = Site(work / "site", pages, options.pages // ON_HOST, follow=not options.corpus)
    found: dict[str, list[Run]] = {name: [] for name in options.only}
    with Postgres() as postgres, RedisServer(work / "redis") as redis, site:
        tables = migrated(postgres, work / "tables")
        for number in range(options.rounds):
            place = work / str(number)
            for name in in_turn(options.only, number):
                redis.flush()
                (place / name).mkdir(parents=True)
                dsn = postgres.new_database(tables if name in OURS else "")
                crawl = OURS.get(name, theirs)
                found[name].append(crawl(name, site, place / name, dsn, redis.url))
                cpu, seconds = (value / site.pages for value in found[name][-1][:2])
                say(JOB, f"{name}: {1000 * cpu:.2f} ms a page, {1 / seconds:.0f} pages/s")
    report(found, site)
    runs = {name: [one._asdict() for one in every] for name, every in found.items()}
    keep(JOB, {"pages": site.pages, "bytes": site.bytes, "runs": runs}, options.output)
    return 0


def in_turn(names: tuple[str, ...], number: int) -> tuple[str, ...]:
    """The order of a round: none is always first."""
    first = number % len(names)
    return names[first:] + names[:first]


def real(corpus: Path) -> Iterator[bytes]:
    """The pages below a directory. Raises OSError."""
    for file in sorted(corpus.rglob("*.*html")):
        if page := file.read_bytes():
            yield page


def report(found: dict[str, list[Run]], site: Site) -> None:
    def ratios(runs: list[Run], other: str) -> str:
        others = found.get(other)
        if not others:
            return ""
        return Spread.of(a.cpu / b.cpu for a, b in zip(runs, others, strict=True)).text()

    rows = [
        (
            name,
            Spread.of(1000 * one.cpu / site.pages for one in runs).text(),
            ratios(runs, "bare"),
            ratios(runs, "scrapy"),
            Spread.of(site.pages / one.seconds for one in runs).text(".0f"),
            Spread.of(one.peak for one in runs).text(".0f"),
        )
        for name, runs in found.items()
    ]
    show(
        f"{site.pages:,} pages of {site.bytes >> 10:,} KiB on {site.pages // ON_HOST:,} hosts",
        ("ms of CPU a page", "x bare", "x Scrapy", "pages/s", "MiB"),
        rows,
        "CPU: user and system time of all processes of the crawler, imports included.",
    )


def crawlframe(
    name: str, site: Site, work: Path, dsn: str, redis: str, *, workers: int = 1, **settings: str
) -> Run:
    env = {
        "SSL_CERT_FILE": str(site.certificate),
        "CRAWLFRAME_RESOLVER": "benchmarks.pages.names:resolve",
    }
    spiders = "benchmarks.pages.spiders"
    with Node(work / "node", dsn, redis, spiders=spiders, workers=workers, env=env) as node:
        node.wait_until_known("pages")
        task = node.submit("pages", settings, seeds=site.seeds, within=site.follow)
        seconds = node.wait(task, RUN_TIMEOUT)
        usage = node.stop()
    check(dsn, "SELECT count(*) FROM crawlservice_item", site.pages, work / "node" / "node.log")
    return Run(usage.cpu, seconds, usage.total / 2**20)


OURS: dict[str, Callable[..., Run]] = {
    "crawlframe": crawlframe,
    "crawlframe-x2": lambda *words: crawlframe(*words, workers=2),
    "crawlframe-keep-all": lambda *words: crawlframe(*words, keep="all"),
}


def theirs(name: str, site: Site, work: Path, dsn: str, redis: str) -> Run:
    with closing(psycopg2.connect(dsn)) as connection, connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE row (url text, title text, links int)")
    words = [name, dsn, site.seeds, site.certificate, site.follow]
    command = [sys.executable, "-m", "benchmarks.pages.contenders", *words]
    with Metered(map(str, command), work / "log", cwd=CHECKOUT, env={**os.environ}) as run:
        usage = run.wait(RUN_TIMEOUT)
    check(dsn, "SELECT count(*) FROM row", site.pages, work / "log")
    return Run(usage.cpu, usage.seconds, usage.total / 2**20)


def check(dsn: str, query: str, pages: int, log: Path) -> None:
    """Raises RuntimeError unless every page was stored."""
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        (count,) = cursor.fetchone() or (0,)
    if count != pages:
        raise RuntimeError(f"stored {count} of {pages} pages: {log.read_text()[-2000:]}")


if __name__ == "__main__":
    sys.exit(main())
