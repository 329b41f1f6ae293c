"""``python -m benchmarks.browser [--quick] [--only speed,hostile] [--pages N]``"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.browser import peers
from benchmarks.browser.run import TOGETHER, Crawl, crawl
from benchmarks.browser.site import CARDS, EVILS
from benchmarks.lab.chart import Line, Panel
from benchmarks.lab.job import keep, run, say, show
from benchmarks.lab.node import migrated
from benchmarks.lab.postgres import Postgres
from benchmarks.lab.redis import RedisServer

JOBS = ("speed", "hostile")
SPEED, QUICK_SPEED = 1_000, 200
HOSTILE, QUICK_HOSTILE = 5_000, 300
GOAL = 10.0  # pages/s and core
GROWTH = 1.3  # of the memory, from the first to the last TOGETHER pages
LIMIT = 4 * 3600.0  # seconds
OURS = "crawlframe"


def main() -> int:
    options = parsed()
    return run("browser", lambda work: measure(options, work))


def parsed() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.browser",
        description=f"Pages whose {CARDS} cards are made by a script, rendered by one node; "
        f"then pages of which {len(EVILS)} kinds of evil ones are 5 %% each. Exit code 1 when a "
        "page was lost, ended twice, or a process was left. The other programs run beside it. "
        "Takes some hours.",
    )
    parser.add_argument("--only", type=lambda text: text.split(","), default=[*JOBS],
                        metavar="NAMES", help=f"some of {','.join(JOBS)}")  # fmt: skip
    parser.add_argument("--pages", type=int, help=f"of each ({SPEED:,} and {HOSTILE:,})")
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_SPEED} and {QUICK_HOSTILE} pages"
    )
    parser.add_argument(
        "--with", type=lambda text: text.split(","), default=[OURS, *peers.NAMES], dest="peers",
        metavar="NAMES", help=f"some of {','.join((OURS, *peers.NAMES))}",
    )  # fmt: skip
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    if unknown := [name for name in options.only if name not in JOBS]:
        parser.error(f"--only: there is no {', '.join(unknown)}; there are {', '.join(JOBS)}")
    if unknown := [name for name in options.peers if name not in (OURS, *peers.NAMES)]:
        parser.error(f"--with: there is no {', '.join(unknown)}")
    return options


def measure(options: argparse.Namespace, work: Path) -> int:
    failed: list[str] = []
    figures: dict[str, dict[str, Any]] = {}
    sizes = {
        "speed": options.pages or (QUICK_SPEED if options.quick else SPEED),
        "hostile": options.pages or (QUICK_HOSTILE if options.quick else HOSTILE),
    }
    with Postgres() as postgres, RedisServer(work / "redis") as redis:
        template = migrated(postgres, work / "migrate")
        for job in options.only:
            say("browser", f"{job}, {sizes[job]:,} pages")
            redis.flush()
            dsn = postgres.new_database(template)
            evil = job == "hostile"
            crawls: dict[str, Crawl] = {}
            if OURS in options.peers:
                done = crawl(work / job, dsn, redis.url, sizes[job], evil=evil, timeout=LIMIT)
                crawls[OURS] = done
                failed += [f"{job}: {problem}" for problem in problems(done, evil=evil)]
            for name in peers.NAMES:
                # The bare client has no deadline of its own, and no page that does harm ends.
                if name in options.peers and not (evil and name == "bare"):
                    say("browser", f"{job}, {name}")
                    place = work / f"{job}-{name}"
                    crawls[name] = peers.crawl(name, place, sizes[job], evil=evil, timeout=LIMIT)
            (_show_hostile if evil else _show_speed)(crawls)
            figures |= {
                job if name == OURS else f"{job}, {name}": {
                    **done._asdict(),
                    "reasons": dict(done.reasons),
                }
                for name, done in crawls.items()
            }
    keep("browser", figures, "Memory of the browser", _panels(figures), options.output)
    for problem in failed:
        say("browser", f"FAILED {problem}")
    return 1 if failed else 0


def _panels(figures: dict[str, dict[str, Any]]) -> list[Panel]:
    lines = [
        Line(job, [(ended, size / (1 << 20)) for ended, size in seen])
        for job, done in figures.items()
        if (seen := done["memory"])
    ]
    return [Panel("While it crawls", "ended pages", lines=lines, y="MiB")]


def problems(done: Crawl, *, evil: bool) -> list[str]:
    """What must not happen."""
    good = good_pages(done.pages) if evil else done.pages
    found = []
    if not done.rows == done.urls == done.pages:
        found.append(f"{done.pages} requests have {done.rows} rows of {done.urls} URLs")
    if done.whole != good:
        found.append(f"{done.whole} of {good} good pages are complete")
    if done.orphans:
        found.append(f"{done.orphans} processes are left")
    return found


def good_pages(pages: int) -> int:
    """Those that do no harm, of so many hostile ones."""
    return sum(n * 13 % 20 >= len(EVILS) for n in range(pages))


def memory_within(done: Crawl, first: float, end: float) -> float:
    """MiB of the browser from that page to that one: the median of what was seen."""
    near = [size for ended, size in done.memory if first <= ended < end and size]
    return sorted(near)[len(near) // 2] / (1 << 20) if near else 0.0


def _show_speed(crawls: dict[str, Crawl]) -> None:
    show(
        f"{_size(crawls):,} pages of {CARDS} cards, images, fonts and media blocked",
        [
            "pages/s",
            "CPU ms/page",
            "pages/s and core",
            "in Chromium",
            "MiB",
            "lost",
            "how it ended",
        ],
        [
            [
                f"Crawlframe (goal {GOAL:g} a core)" if name == OURS else peers.NAMES[name],
                f"{done.urls / done.seconds:.1f}",
                f"{1000 * done.cpu / done.urls:.0f}" if done.urls else "?",
                f"{done.urls / done.cpu:.1f}",
                f"{done.chromium / done.cpu:.0%}",
                f"{memory_within(done, 0.45 * done.pages, 0.55 * done.pages):.0f}",
                str(done.pages - done.whole),
                "hung" if done.hung else "by itself",
            ]
            for name, done in crawls.items()
        ],
        "CPU: of all processes, user and system; in Chromium: of what was seen of its processes "
        "twice a second. MiB: of browser and driver, half way.",
    )


def _show_hostile(crawls: dict[str, Crawl]) -> None:
    pages = _size(crawls)
    some = min(TOGETHER, pages // 3)
    rows = []
    for name, done in crawls.items():
        early = memory_within(done, 1, some)
        late = memory_within(done, done.pages - some, done.pages)
        good = good_pages(done.pages)
        rows.append(
            [
                f"Crawlframe (goal {GROWTH:g})" if name == OURS else peers.NAMES[name],
                f"{done.urls / done.seconds:.1f}",
                f"{1000 * done.cpu / done.urls:.0f}" if done.urls else "?",
                str(done.rows),
                str(done.urls),
                f"{done.whole} of {good}",
                f"{early:.0f}",
                f"{late:.0f}" if late else "?",
                f"{late / early:.2f}" if early and late else "?",
                str(done.orphans),
                "hung" if done.hung else "by itself",
            ]
        )
    show(
        f"{pages:,} pages, {', '.join(EVILS)}: 5 % each",
        [
            "pages/s", "CPU ms/page", "rows", "URLs", "complete", f"MiB, first {some}",
            f"last {some}", "growth", "left", "how it ended",
        ],
        rows,
    )  # fmt: skip
    for name, done in crawls.items():
        ended = [[why, str(n)] for why, n in sorted(done.reasons.items())]
        show(f"How they ended: {name}", ["requests"], ended)


def _size(crawls: dict[str, Crawl]) -> int:
    return max((done.pages for done in crawls.values()), default=0)


if __name__ == "__main__":
    raise SystemExit(main())
