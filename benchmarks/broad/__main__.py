"""``python -m benchmarks.broad [--quick] [--only NAME,…] [--hosts N] [--seconds N]``"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.broad.crawls import ENTRIES, NAMES, Crawled, crawl
from benchmarks.broad.verdicts import Terms
from benchmarks.lab.chart import Line, Panel
from benchmarks.lab.job import keep, run, say, show

JOB = "broad"
HOSTS, SECONDS, DELAY, PER_HOST = 1_000, 120.0, 4.0, 2
QUICK_HOSTS, QUICK_SECONDS, QUICK_DELAY = 100, 10.0, 1.0
MIB = 2**20
COLUMNS = [
    "pages", "pages/s", "of the ideal", "MiB", "Redis MiB", "CPU s", "early", "crawl-delay",
    "crowded", "forbidden", "twice", "traps",
]  # fmt: skip
CAPTION = (
    "Different pages without traps, also per second and as a share of what the delays allow. MiB: "
    "all processes of the crawler at most, and Redis. Requests: sooner than the delay; than the "
    "Crawl-delay, where that is longer; while as many as allowed were in flight; forbidden by "
    "robots.txt. URLs answered twice; pages of traps."
)


def main() -> int:
    options = parsed()
    terms = Terms(options.seconds, options.delay, options.per_host)

    def measure(work: Path) -> int:
        done = []
        for entry in ENTRIES:
            if entry.name in options.only:
                say(JOB, f"{entry.label}: {options.hosts:,} hosts, {terms.seconds:.0f} s")
                done.append(crawl(entry, options.hosts, terms, work))
        report(done, options.hosts, terms, options.output)
        return 0

    return run(JOB, measure)


def parsed() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{JOB}",
        description="Crawls many simulated hosts, of different sizes and speeds, with errors and "
        "traps, by Crawlframe, Scrapy and scrapy-redis in turn, each for the same time, and judges "
        "them from the log of the hosts. Takes about 20 minutes.",
    )
    parser.add_argument("--hosts", type=int, help=f"({HOSTS:,})")
    parser.add_argument("--seconds", type=float, help=f"of each crawl ({SECONDS:g})")
    parser.add_argument("--delay", type=float,
                        help=f"seconds between two requests to a host ({DELAY:g})")  # fmt: skip
    parser.add_argument("--per-host", type=int, default=PER_HOST,
                        help=f"requests in flight at a host ({PER_HOST})")  # fmt: skip
    parser.add_argument("--only", type=lambda text: text.split(","), default=NAMES, metavar="NAMES",
                        help=f"some of {','.join(NAMES)}")  # fmt: skip
    parser.add_argument("--quick", action="store_true",
                        help=f"{QUICK_HOSTS} hosts, {QUICK_SECONDS:g} s each")  # fmt: skip
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    options.hosts = options.hosts or (QUICK_HOSTS if options.quick else HOSTS)
    options.seconds = options.seconds or (QUICK_SECONDS if options.quick else SECONDS)
    if options.delay is None:
        options.delay = QUICK_DELAY if options.quick else DELAY
    if unknown := [name for name in options.only if name not in NAMES]:
        parser.error(f"--only: there is no {', '.join(unknown)}; there are {', '.join(NAMES)}")
    if not 1 <= options.hosts <= 10_000:
        parser.error("--hosts must be 1 to 10,000")
    if options.seconds <= 0 or options.delay < 0 or options.per_host < 1:
        parser.error("--seconds must be above 0, --delay 0 or more, --per-host 1 or more")
    return options


def report(done: list[Crawled], hosts: int, terms: Terms, output: Path | None) -> None:
    rows = []
    for one in done:
        found = one.found
        rows.append([
            one.entry.label,
            f"{found.pages:,}",
            f"{found.pages / terms.seconds:.0f}",
            f"{100 * found.share:.0f} %",
            f"{one.usage.total / MIB:.0f}",
            f"{one.redis / MIB:.0f}" if one.redis else "-",
            f"{one.usage.cpu:.0f}",
            *(f"{n:,}" for n in (
                found.too_early, found.crawl_delay, found.crowded, found.forbidden,
                found.duplicates, found.traps,
            )),
        ])  # fmt: skip
    title = (
        f"{hosts:,} hosts, {terms.seconds:g} s, a request every {terms.delay:g} s and "
        f"{terms.per_host} in flight per host"
    )
    show(title, COLUMNS, rows, CAPTION)
    figures = {"hosts": hosts, "terms": terms._asdict(), "crawls": [figures_of(x) for x in done]}
    lines = [Line(one.entry.label, one.rates) for one in done]
    keep(JOB, figures, title, [Panel("Pages", "seconds", lines=lines, y="pages/s")], output)


def figures_of(one: Crawled) -> dict[str, object]:
    return {
        **one.entry._asdict(),
        **one.found._asdict(),
        "share": one.found.share,
        "usage": one.usage._asdict(),
        "redis": one.redis,
        "rates": one.rates,
    }


if __name__ == "__main__":
    sys.exit(main())
