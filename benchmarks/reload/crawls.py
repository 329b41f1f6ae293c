"""The crawls of the demo site during which code is changed, or its crawler restarted."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.reload.changes import SETTLE, Change, Run
from benchmarks.reload.memory import Sample
from benchmarks.reload.node import Node
from benchmarks.reload.project import Project
from benchmarks.reload.steps import steps_of
from examples.demo_site.child import DemoServer

LISTINGS = 500_000  # more than any run crawls
START = "/search?city=berlin"
WARM_UP = 5.0  # seconds of crawling before the first change
WORKERS = 2


class Place(NamedTuple):
    """Where a run takes place: an empty directory, the latency of the site in milliseconds, and the
    number of spider modules."""

    directory: Path
    latency: float
    modules: int


def reloads(place: Place, name: str, count: int, *, steps: bool = False) -> Run:
    """The spiders change while they are crawling, by hand and by git in turn. With ``steps`` the
    log tells where the time goes."""
    with _crawl(place, Run(name, []), log="DEBUG" if steps else "INFO") as (run, project, node):
        for number in range(1, count + 1):
            node.watch(random.uniform(0, 0.3))  # not in step with anything
            how = "edit" if number % 2 else "pull"
            written = project.edit(number) if number % 2 else project.pull(number)
            run.changes.append(Change(number, how, written))
            node.wait_for(number)
            node.watch(SETTLE)
    if steps:
        run.steps = steps_of(node.log_text(), run.changes)
    return run


def hand_overs(place: Place, count: int) -> Run:
    """A file of the framework changes: the node is handed over to a new master."""
    with _crawl(place, Run("framework changed", [])) as (run, project, node):
        for number in range(1, count + 1):
            written = project.change_framework(number)
            run.changes.append(Change(number, "framework", written))
            node.wait_for(number)
            node.watch(SETTLE + 2)  # the old master drains, and the supervisor re-executes itself
    return run


def restarts(place: Place, count: int) -> Run:
    """The node is stopped, and started again once it has ended."""
    with _crawl(place, Run("node restarted", []), reload=False) as (run, project, node):
        for number in range(1, count + 1):
            run.changes.append(Change(number, "restart", project.edit(number)))
            node.stop()
            node.start()
            node.wait_for(number)
            node.watch(SETTLE)
    return run


def many_reloads(place: Place, count: int) -> list[Sample]:
    """As many reloads as possible in a row: the memory of the processes above the workers."""
    samples = []
    with _crawl(place, Run("memory", [])) as (run, project, node):
        for number in range(1, count + 1):
            run.changes.append(Change(number, "edit", project.edit(number)))
            node.wait_for(number)
            samples.append(Sample.take(number, *node.processes()))
    return samples


@contextmanager
def _crawl(
    place: Place, run: Run, *, reload: bool = True, log: str = "INFO"
) -> Iterator[tuple[Run, Project, Node]]:
    """A node that crawls; ``run`` is evaluated when it has stopped."""
    place.directory.mkdir()
    with DemoServer(LISTINGS, latency=place.latency) as demo:
        project = Project(place.directory / "project", demo.url, place.modules)
        var = place.directory / "var"
        with Node(project.directory, var, WORKERS, reload=reload, log=log) as node:
            node.submit()
            node.wait_for(0)
            time.sleep(WARM_UP)
            yield run, project, node
        run.judge(node.rows, demo.stats(), START)
