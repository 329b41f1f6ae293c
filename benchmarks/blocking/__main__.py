"""``python -m benchmarks.blocking [--quick] [--workers N,N]``"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.blocking.spiders.manners import QUICK as QUICK_PAGES
from benchmarks.blocking.stage import Scene, stage
from benchmarks.lab.chart import Line, Panel
from benchmarks.lab.job import keep, run, say, show
from benchmarks.lab.results import counted


class Part(NamedTuple):
    """One spider beside the ordinary one. Times in seconds, the first one with --quick."""

    name: str
    spider: str
    durations: tuple[float, float]
    pauses: tuple[float, float] = (0.0, 0.0)  # seconds that its callbacks take


PARTS = (
    Part("alone", "", (4, 10)),
    Part("sleeping 1 s", "sleeping", (6, 20), (1.0, 1.0)),
    Part("alone again", "", (4, 10)),
    Part("computing 0.3 s", "computing", (6, 20), (0.3, 0.3)),
    Part("surprising", "surprising", (12, 40), (3.0, 10.0)),
)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.blocking",
        description="An ordinary crawl runs on a node, and beside it one spider whose callbacks "
        "sleep, one whose callbacks compute, and one that sleeps after having been quick for long. "
        "How fast is the ordinary one, and how long does it stand still? About five minutes.",
    )
    parser.add_argument("--workers", type=_numbers, default=[1, 2], metavar="N,N",
                        help="of the node (1,2)")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="less than a minute for each node")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    if min(options.workers) < 1:
        parser.error("--workers must be 1 or more")
    return run("blocking", lambda work: measure(options, work))


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def measure(options: argparse.Namespace, work: Path) -> int:
    scenes: dict[int, dict[str, Scene]] = {}
    for workers in options.workers:
        scenes[workers] = {}
        with stage(workers, work / str(workers)) as play:
            for part in PARTS:
                duration, pause = (pair[not options.quick] for pair in part[2:])
                say("blocking", f"{counted(workers, 'worker')}, {part.name}: {duration:g} s")
                scenes[workers][part.name] = play.scene(part.spider, duration, pause)
            pages = play.finish()
        say("blocking", f"{pages:,} pages of the ordinary crawl stored once, none lost")
    for workers, some in scenes.items():
        _show(workers, some)
    figures = {
        "scenes": [
            {"workers": workers, "name": name, **scene._asdict()}
            for workers, some in scenes.items()
            for name, scene in some.items()
        ]
    }
    keep("blocking", figures, "An ordinary crawl beside rude ones", panels(scenes), options.output)
    return 0


def _show(workers: int, scenes: dict[str, Scene]) -> None:
    first = scenes["alone"].rate
    show(
        f"The ordinary crawl of a node with {counted(workers, 'worker')}",
        ["pages/s", "of alone", "longest standstill s", "rude pages/s", "processors"],
        [
            [
                name,
                f"{scene.rate:.0f}",
                f"{scene.rate / first:.0%}" if first else "",
                f"{scene.still:.2f}",
                f"{scene.rude:.1f}" if scene.spider else "",
                f"{scene.cpu:.2f}",
            ]
            for name, scene in scenes.items()
        ],
        "From the submission of the rude spider on, with 8 of its requests in flight. longest "
        "standstill: without a page stored. The surprising one is quick for "
        f"{QUICK_PAGES:,} pages, and then sleeps for long on every 500th. processors: that "
        "the node used.",
    )


def panels(scenes: dict[int, dict[str, Scene]]) -> list[Panel]:
    """The diagrams of the chart: the rate over time, scene by scene."""
    found: Sequence[Panel] = [
        Panel(
            counted(workers, "worker"),
            "seconds since the submission of the rude spider",
            lines=[Line(name, scene.curve) for name, scene in some.items()],
            y="ordinary pages/s",
        )
        for workers, some in scenes.items()
    ]
    return [*found]


if __name__ == "__main__":
    sys.exit(main())
