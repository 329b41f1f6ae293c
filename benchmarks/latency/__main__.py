"""``python -m benchmarks.latency [--quick] [--only NAME,…] [--in-flight N,N] [--pages N]``"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.lab.job import keep, run, say, show
from benchmarks.latency.slow import LATENCY, Crawl, SlowBench
from benchmarks.standard.entries import NAMES, OURS, Entry, chosen
from benchmarks.standard.runs import Failed
from benchmarks.standard.site import FEWEST

PAGES, QUICK_PAGES = 20_000, 2_000
IN_FLIGHT = [64, 256]
PEERS = ["scrapy", "scrapy-redis", "crawlee"]
GOAL = 0.9  # of the ideal, with 256 in flight


def main() -> int:
    options = parsed()
    return run("latency", lambda work: measure(options, work))


def parsed() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.latency",
        description=f"The standard job on a site that answers after {LATENCY * 1000:g} ms, with 64 "
        "and 256 requests in flight in one process, by Crawlframe and its peers in turn. Exit "
        "code 1 when one of them failed. Takes about 10 minutes.",
    )
    parser.add_argument("--pages", type=int, help=f"of the slow site ({PAGES:,})")
    parser.add_argument("--in-flight", type=_numbers, default=IN_FLIGHT, metavar="N,N",
                        help="requests (64,256)")  # fmt: skip
    parser.add_argument("--only", type=lambda text: text.split(","), default=[OURS, *PEERS],
                        metavar="NAMES", help=f"some of {','.join(NAMES)}")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_PAGES:,} pages")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    options.pages = options.pages or (QUICK_PAGES if options.quick else PAGES)
    if unknown := [name for name in options.only if name not in NAMES]:
        parser.error(f"--only: there is no {', '.join(unknown)}; there are {', '.join(NAMES)}")
    if options.pages < FEWEST or min(options.in_flight) < 1:
        parser.error(f"--pages must be {FEWEST} or more, --in-flight 1 or more")
    return options


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def measure(options: argparse.Namespace, work: Path) -> int:
    failures: list[str] = []
    crawls = [*_crawls(options, work, failures)]
    if crawls:
        _show(crawls)
    figures = {
        "pages": options.pages,
        "latency": LATENCY,
        "crawls": [_as_dict(crawl) for crawl in crawls],
        "failures": failures,
    }
    keep("latency", figures, options.output)
    for failure in failures:
        say("latency", f"FAILED {failure}")
    return 1 if failures else 0


def _crawls(options: argparse.Namespace, work: Path, failures: list[str]) -> Iterator[Crawl]:
    entries = [entry for entry in chosen(options.only, [1]) if _install(entry, failures)]
    with SlowBench(options.pages, work) as bench:
        for in_flight in options.in_flight:
            for entry in entries:
                say("latency", f"{entry.label}, {in_flight} in flight")
                try:
                    crawl = bench.run(entry, in_flight)
                except Failed as error:
                    failures.append(f"{entry.label}, {in_flight} in flight: {error}")
                    continue
                say("latency", f"  {crawl.whole:,.0f} pages/s, steadily {crawl.steady:,.0f}")
                yield crawl


def _install(entry: Entry, failures: list[str]) -> bool:
    try:
        if entry.folder:
            entry.python()
    except (OSError, RuntimeError) as error:
        failures.append(f"{entry.label}: {error}")
        return False
    return True


def _show(crawls: Sequence[Crawl]) -> None:
    show(
        f"Pages that take {LATENCY * 1000:g} ms, one process",
        ["in flight", "ideal", "pages/s", "of ideal", "steadily", "of ideal", "CPU ms/page",
         "core", "fetched twice"],
        [
            [
                crawl.result.label,
                str(crawl.in_flight),
                f"{crawl.ideal:,.0f}",
                f"{crawl.whole:,.0f}",
                f"{crawl.whole / crawl.ideal:.0%}",
                f"{crawl.steady:,.0f}",
                f"{crawl.steady / crawl.ideal:.0%}",
                f"{_cpu(crawl) / crawl.result.pages * 1000:.2f}",
                f"{_cpu(crawl) / crawl.result.seconds:.0%}",
                str(crawl.twice),
            ]
            for crawl in crawls
        ],
        f"goal: {GOAL:.0%} of the ideal with 256 in flight. pages/s: with us from submission to "
        "the end of the task, else from the first request to the last row; it has the slow start, "
        "for one page leads to 25 others. steadily: as the site answered, without the first and "
        "last tenth of the pages. CPU: of the crawler, with us without its start. The site, one "
        f"uvloop process, takes {_site_cpu(crawls):.3f} ms of CPU for a page.",
    )  # fmt: skip


def _cpu(crawl: Crawl) -> float:
    return crawl.result.cpu - (crawl.result.start_cpu or 0.0)


def _site_cpu(crawls: Sequence[Crawl]) -> float:
    return 1000 * sum(c.site_cpu for c in crawls) / sum(c.result.pages for c in crawls)


def _as_dict(crawl: Crawl) -> dict[str, object]:
    return {
        **crawl._asdict(),
        "result": crawl.result._asdict(),
        "ideal": crawl.ideal,
        "whole": crawl.whole,
    }


if __name__ == "__main__":
    sys.exit(main())
