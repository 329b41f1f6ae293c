"""``python -m benchmarks.auto_render [--quick] [--pages N] [--only auto]``"""

from __future__ import annotations

import argparse
import contextlib
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import psycopg2

from benchmarks.auto_render.site import (
    KINDS,
    Item,
    Site,
    ends_well,
    items_of,
    needs_browser,
)
from benchmarks.lab.chart import Bar, Panel
from benchmarks.lab.job import keep, run, say, show
from benchmarks.lab.node import Node, migrated
from benchmarks.lab.postgres import Postgres
from benchmarks.lab.redis import RedisServer

PAGES, QUICK_PAGES = 2_000, 480
GOAL = 1.15  # rendered pages for each that an oracle renders
TIMEOUT = 3600.0  # seconds
SPIDERS = {"auto": "mixed", "browser": "rendered"}


class Crawl(NamedTuple):
    """``missing`` and ``surplus``: items by type, against what a reader with a browser finds.
    ``cpu`` is in seconds, of all processes of the node."""

    seconds: float
    cpu: float
    plain: Counter[str]
    rendered: Counter[str]
    missing: Counter[str]
    surplus: Counter[str]
    rows: int
    errors: int


def main() -> int:
    options = parsed()
    return run("auto_render", lambda work: measure(options, work))


def parsed() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.auto_render",
        description=f'A site of {len(KINDS)} types of pages, crawled with render = "auto" and all '
        "by the browser. Exit code 1 when an item is missing, or more than "
        f"{GOAL:g} times the pages are rendered that an oracle renders. Takes about 15 minutes.",
    )
    parser.add_argument("--only", choices=[*SPIDERS], help="one of the two crawls")
    parser.add_argument("--pages", type=int, help=f"of all types ({PAGES:,})")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_PAGES} pages")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    return parser.parse_args()


def measure(options: argparse.Namespace, work: Path) -> int:
    pages = -(-(options.pages or (QUICK_PAGES if options.quick else PAGES)) // len(KINDS))
    done: dict[str, Crawl] = {}
    with Postgres() as postgres, RedisServer(work / "redis") as redis:
        template = migrated(postgres, work / "migrate")
        for name in [options.only] if options.only else SPIDERS:
            say("auto_render", f"{name}, {pages * len(KINDS):,} pages")
            redis.flush()
            dsn = postgres.new_database(template)
            done[name] = crawl(work / name, dsn, redis.url, SPIDERS[name], pages)
    oracle = Counter({kind: _needed(kind, pages) for kind in KINDS})
    _show(done, oracle, pages)
    found = [f"{name}: {problem}" for name in done for problem in problems(done[name], pages)]
    if (auto := done.get("auto")) and auto.rendered.total() > GOAL * oracle.total():
        found.append(f"auto: {auto.rendered.total()} pages rendered, {oracle.total()} needed it")
    figures: dict[str, Any] = {name: one._asdict() for name, one in done.items()}
    figures |= {"oracle": dict(oracle), "pages": pages * len(KINDS)}
    keep("auto_render", figures, "Rendered pages", _panels(done, oracle), options.output)
    for problem in found:
        say("auto_render", f"FAILED {problem}")
    return 1 if found else 0


def crawl(work: Path, dsn: str, redis: str, spider: str, pages: int) -> Crawl:
    """Raises RuntimeError when the node fails."""
    node = Node(work, dsn, redis, spiders="benchmarks.auto_render.spiders", concurrency=32)
    with Site(pages) as site, node:
        node.wait_until_known(spider)
        before = node.run.cpu_seconds()
        task = node.submit(spider, site=site.url, pages=pages)
        seconds = node.wait(task, TIMEOUT)
        cpu = node.run.cpu_seconds() - before
        node.stop()
        plain, rendered = _by_kind(site.plain), _by_kind(site.rendered)
    missing, surplus, rows, errors = _ledger(dsn, task, site.url, pages)
    return Crawl(seconds, cpu, plain, rendered, missing, surplus, rows, errors)


def _needed(kind: str, pages: int) -> int:
    return sum(needs_browser(kind, number, pages) for number in range(pages))


def _by_kind(paths: Counter[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for path, count in paths.items():
        found[path.split("/")[1]] += count
    return found


def _ledger(
    dsn: str, task: int, url: str, pages: int
) -> tuple[Counter[str], Counter[str], int, int]:
    expected = Counter(
        (kind, *_key(f"{url}{kind}/{number}", item))
        for kind in KINDS
        for number in range(pages)
        for item in items_of(kind, number)
    )
    with contextlib.closing(psycopg2.connect(dsn)) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT data FROM crawlservice_item WHERE task_id = %s", (task,))
        found = Counter((data["url"].split("/")[3], *_key(data["url"], data)) for (data,) in cursor)
        cursor.execute(
            "SELECT count(*), count(*) FILTER (WHERE reason <> '') FROM crawlservice_page"
            " WHERE task_id = %s AND url LIKE 'http%%'",
            (task,),
        )
        rows, errors = cursor.fetchone()
    missing, surplus = expected - found, found - expected
    return _sums(missing), _sums(surplus), rows, errors


def _key(url: str, item: Item) -> tuple[str, str, str | None]:
    return url, item["name"], item["price"]


def _sums(items: Counter[tuple[str, str, str, str | None]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for (kind, *_), count in items.items():
        found[kind] += count
    return found


def problems(done: Crawl, pages: int) -> list[str]:
    """What must not happen."""
    found = []
    if done.missing or done.surplus:
        found.append(f"items missing: {dict(done.missing)}, too many: {dict(done.surplus)}")
    if done.rows != pages * len(KINDS):
        found.append(f"{pages * len(KINDS)} requests have {done.rows} rows")
    gone = sum(not ends_well(kind, number) for kind in KINDS for number in range(pages))
    if done.errors != gone:
        found.append(f"{done.errors} errors, of which {gone} are those of the site")
    return found


def _show(done: dict[str, Crawl], oracle: Counter[str], pages: int) -> None:
    columns = ["pages", "oracle"]
    for name in done:
        columns += [f"{name}: plain", "rendered", "items missing"]
    rows = [
        [f"{kind}: {text}", str(pages), str(oracle[kind])]
        + [
            str(count[kind])
            for one in done.values()
            for count in (one.plain, one.rendered, one.missing)
        ]
        for kind, text in KINDS.items()
    ]
    total = ["all", str(pages * len(KINDS)), str(oracle.total())]
    for one in done.values():
        total += [str(count.total()) for count in (one.plain, one.rendered, one.missing)]
    show("Fetches of pages, by type", columns, [*rows, total])
    show(
        f"Rendered pages for each that needs it (goal: at most {GOAL:g})",
        ["times", "s", "CPU s"],
        [
            [name, f"{one.rendered.total() / oracle.total():.3f}", f"{one.seconds:.0f}",
             f"{one.cpu:.0f}"]
            for name, one in done.items()
        ],
    )  # fmt: skip


def _panels(done: dict[str, Crawl], oracle: Counter[str]) -> list[Panel]:
    counts = {"oracle": oracle} | {name: one.rendered for name, one in done.items()}
    return [
        Panel(name, "pages", bars=[Bar(kind, {"rendered": float(count[kind])}) for kind in KINDS])
        for name, count in counts.items()
    ]


if __name__ == "__main__":
    raise SystemExit(main())
