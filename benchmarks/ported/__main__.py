"""``python -m benchmarks.ported [--pairs N] [--first scrapy|crawlframe] [--pages N] [--quick]``"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import psycopg2

from benchmarks.lab.chart import Bar, Panel
from benchmarks.lab.job import keep, run, say, show
from benchmarks.lab.nginx import Nginx
from benchmarks.lab.node import Node, migrated
from benchmarks.lab.postgres import Postgres
from benchmarks.lab.redis import RedisServer
from benchmarks.standard.site import FEWEST, Site

HERE = Path(__file__).parent
PAGES, QUICK_PAGES, PAIRS = 1_500, 300, 5
SCRAPY, OURS = "scrapy", "crawlframe"
TIMEOUT = 300.0


class Took(NamedTuple):
    """CPU milliseconds a page. ``crawl``: of the process that fetches and parses, without its
    start. ``whole``: with its start; for Crawlframe, of all processes of the node, without
    theirs. ``servers``: of PostgreSQL and Redis."""

    crawl: float
    whole: float
    servers: float = 0.0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ported",
        description="Crawls the same site with the same Scrapy project, by Scrapy and by a node "
        "with one worker, frontier and ledger, in pairs, and compares CPU seconds. "
        "Exit code 1 when the items differ.",
    )
    parser.add_argument("--pages", type=int, help=f"({PAGES:,})")
    parser.add_argument("--pairs", type=int, help=f"({PAIRS})")
    parser.add_argument("--quick", action="store_true", help=f"one pair, {QUICK_PAGES} pages")
    parser.add_argument("--first", choices=(SCRAPY, OURS), default=SCRAPY,
                        help="of the first pair; then they take turns")  # fmt: skip
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    options.pages = options.pages or (QUICK_PAGES if options.quick else PAGES)
    options.pairs = options.pairs or (1 if options.quick else PAIRS)
    if options.pages < FEWEST or options.pairs < 1:
        parser.error(f"--pages must be {FEWEST} or more, --pairs 1 or more")
    return run("ported", lambda work: measure(options, work))


def measure(options: argparse.Namespace, work: Path) -> int:
    (work / "nginx").mkdir()
    pairs: list[dict[str, Took]] = []
    with (
        Nginx(work / "root", work / "nginx", log=False) as nginx,
        Postgres() as postgres,
        RedisServer(work / "redis") as redis,
    ):
        site = Site(options.pages, nginx.url)
        site.write(work / "root")
        template = migrated(postgres, work / "migrate")
        order = [SCRAPY, OURS] if options.first == SCRAPY else [OURS, SCRAPY]
        for number in range(options.pairs):
            pair: dict[str, Took] = {}
            place = work / f"pair{number}"
            place.mkdir()
            for name in order if number % 2 == 0 else order[::-1]:
                if name == SCRAPY:
                    pair[name], items = by_scrapy(site, place)
                else:
                    redis.flush()
                    pair[name], items = by_node(site, place, postgres, redis, template)
                if items != wanted(site):
                    say("ported", f"FAILED {name} found other items")
                    return 1
            pairs.append(pair)
            ratio = pair[OURS].crawl / pair[SCRAPY].crawl
            both = f"{pair[SCRAPY].crawl:.2f} and {pair[OURS].crawl:.2f} ms a page"
            say("ported", f"pair {number + 1}: {both}, {ratio:.2f}")
    report(pairs, options)
    return 0


def by_scrapy(site: Site, work: Path) -> tuple[Took, list[str]]:
    """What Scrapy took, and its items. Raises RuntimeError when it fails."""
    out = work / "items.jsonl"
    done = subprocess.run(
        [sys.executable, HERE / "by_scrapy.py", site.start, out],
        cwd=HERE / "project",
        env={**os.environ, "SCRAPY_SETTINGS_MODULE": "shop.settings", "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    if done.returncode:
        raise RuntimeError(f"Scrapy: {done.stderr[-2000:]}")
    took = json.loads(done.stdout.splitlines()[-1])
    items = [one(json.loads(line)) for line in out.read_text().splitlines()]
    per_page = 1000 / site.pages
    return Took(took["crawl"] * per_page, took["whole"] * per_page), sorted(items)


def by_node(
    site: Site, work: Path, postgres: Postgres, redis: RedisServer, template: str
) -> tuple[Took, list[str]]:
    """What a node took, and its items."""
    dsn = postgres.new_database(template)
    env = {"CRAWLFRAME_SCRAPY": str(HERE / "project")}
    with Node(work / "node", dsn, redis.url, env=env, spiders="benchmarks.ported.native") as node:
        node.wait_until_known("standard")
        before, servers = spent(node), redis.cpu_seconds() + postgres.cpu_seconds()
        node.wait(node.submit("standard", start_url=site.start), TIMEOUT)
        after = spent(node)
        servers = redis.cpu_seconds() + postgres.cpu_seconds() - servers
        node.stop()
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT data FROM crawlservice_item")
        items = sorted(one(data) for (data,) in cursor.fetchall())
    postgres.drop(dsn)
    grown = {pid: seconds - before.get(pid, 0.0) for pid, seconds in after.items()}
    per_page = 1000 / site.pages
    worker, all_ = max(grown.values()), sum(grown.values())
    return Took(worker * per_page, all_ * per_page, servers * per_page), items


def spent(node: Node) -> dict[int, float]:
    """CPU seconds of each living process of the node; that of the worker grows the most."""
    found = {}
    for process in node.run.processes():
        try:
            found[process.pid] = sum(process.cpu_times()[:2])
        except psutil.Error:
            continue
    return found


def one(item: Any) -> str:
    return json.dumps(item, sort_keys=True)


def wanted(site: Site) -> list[str]:
    return sorted(one({**row._asdict(), "price": float(row.price)}) for row in site.rows())


def report(pairs: list[dict[str, Took]], options: argparse.Namespace) -> None:
    def median(values: list[float]) -> str:
        return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"

    rows = []
    for name in (SCRAPY, OURS):
        taken = [pair[name] for pair in pairs]
        rows.append([name, *(median([*column]) for column in zip(*taken, strict=True))])
    ratios = [pair[OURS].crawl / pair[SCRAPY].crawl for pair in pairs]
    node = [pair[OURS].whole / pair[SCRAPY].crawl for pair in pairs]
    rows.append(["ratio", median(ratios), median(node), ""])
    columns = ["worker, Scrapy", "whole node, Scrapy with its start", "servers"]
    show(f"CPU ms a page, {options.pages:,} pages, {len(pairs)} pairs", columns, rows)
    bars = [
        Bar(name, {"CPU": statistics.median(pair[name].crawl for pair in pairs)})
        for name in (SCRAPY, OURS)
    ]
    figures = {
        "pages": options.pages,
        "pairs": [{name: took._asdict() for name, took in pair.items()} for pair in pairs],
    }
    title = "One Scrapy spider, by Scrapy and by a worker"
    keep("ported", figures, title, [Panel("", "CPU milliseconds a page", bars)], options.output)


if __name__ == "__main__":
    sys.exit(main())
