"""``python -m benchmarks.profile [--pages N] [--quick]``"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks.lab.job import keep, run, say, show
from benchmarks.lab.nginx import Nginx
from benchmarks.lab.node import environment, migrated
from benchmarks.lab.postgres import Postgres
from benchmarks.lab.redis import RedisServer
from benchmarks.profile import parts
from benchmarks.profile.parts import Part
from benchmarks.standard.site import Site

PAGES, QUICK = 4_000, 500
OURS = ("worker", "commit thread", "master")  # the parts that the standard job counts as ours


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.profile",
        description="Measures each part of a page's way alone, on pages of the standard job: what "
        "it costs in microseconds of processor time. Takes a minute.",
    )
    parser.add_argument("--pages", type=int, help=f"({PAGES})")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} pages")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    count = options.pages or (QUICK if options.quick else PAGES)
    if count < 100:
        parser.error("--pages must be 100 or more")
    return run("profile", lambda work: measure(count, work, options.output))


def measure(count: int, work: Path, output: Path | None) -> int:
    found: list[Part] = []
    with Nginx(work / "site", work, log=False) as nginx:
        site = Site(count, nginx.url)
        say("profile", f"making {count:,} pages")
        pages = parts.pages_of(site)
        (work / "site" / "p").mkdir(parents=True)
        for page in pages:
            (work / "site" / page.url.removeprefix(nginx.url)).write_bytes(page.body)
        say("profile", "fetching")
        found.append(parts.fetch(pages))
    say("profile", "parsing")
    found += [parts.engine(pages), *parts.messages(pages), *parts.callback(pages)]
    with Postgres() as postgres, RedisServer(work / "redis") as redis:
        say("profile", "storing")
        dsn = postgres.new_database(migrated(postgres, work / "migrate"))
        os.environ.update(environment(work / "var", dsn, redis.url))
        found += stored(pages, redis, postgres)
    print_parts(found)
    keep("profile", {"pages": count, "parts": [part._asdict() for part in found]}, output)
    return 0


def stored(pages: list[parts.Page], redis: RedisServer, postgres: Postgres) -> list[Part]:
    """Storing needs the service's models, which need an environment that names the database."""
    import django

    os.environ["DJANGO_SETTINGS_MODULE"] = "crawlservice.settings"
    django.setup()
    from benchmarks.profile.storing import storing
    from crawlservice.ledger.store import DjangoLedger
    from crawlservice.models import Task

    task = Task.objects.create(spider="standard", arguments={})
    try:
        return storing(pages, DjangoLedger(), task.pk, redis, postgres)
    finally:
        DjangoLedger().close()


def print_parts(found: list[Part]) -> None:
    ours = sum(part.micros for part in found if part.where in OURS)
    rows = [[part.name, part.where, f"{part.micros:.0f}"] for part in found]
    show(
        "Microseconds of processor time for a page",
        ["where", "us"],
        [*rows, ["worker and master together", "", f"{ours:.0f}"]],
        "Each part alone, the best of three where it can be repeated. Two processes on the same "
        "pages take more: caches, scheduling, and what the kernel does for them.",
    )


if __name__ == "__main__":
    sys.exit(main())
