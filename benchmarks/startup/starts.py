"""Starts: a node is started while a task waits for it, and the site records its first answer."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

from benchmarks.lab.counted import CountedSite
from benchmarks.lab.node import CHECKOUT, MANAGE, NODE_TIMEOUT, environment, manage
from benchmarks.lab.tree import Tree
from crawlframe.embedded import guardian
from crawlservice.cli.process_group import die_with_parent

POLL_EVERY = 0.02  # seconds between two checks of the site
SPIDER = "site"


class Start(NamedTuple):
    """Seconds from the start of runcrawler to its first page, and their parts."""

    seconds: float
    cpu: float  # of all processes of the node; independent of other load on the machine


class Place(NamedTuple):
    """The place of a node. ``options`` are arguments of runcrawler."""

    name: str
    var: Path
    env: Mapping[str, str]
    options: tuple[str, ...] = ()


def embedded(var: Path) -> dict[str, str]:
    """The variables of a node for which nothing is configured."""
    env = environment(var, "", "")
    del env["DATABASE_URL"], env["REDIS_URL"]
    return env


def starts(place: Place, count: int) -> Iterator[Start]:
    """Starts it this many times. Before that a node runs once, which makes the tables and publishes
    its spiders. Raises RuntimeError."""
    place.var.mkdir(exist_ok=True)
    tree = Tree(1)
    with CountedSite(tree) as site:
        with _node(place):
            _submit(place, site.url + tree.start)
            _wait_for_page(place, site)
        for _ in range(count):
            _wait_for_redis(place)
            _submit(place, site.url + tree.start)
            _wait_for_redis(place)
            started = time.monotonic()
            with _node(place) as process:
                answered = _wait_for_page(place, site)
                yield Start(answered - started, _cpu_seconds(process))


@contextmanager
def _node(place: Place) -> Iterator[psutil.Process]:
    command = [*MANAGE, "runcrawler", "--node", "startup", *place.options]
    with (place.var / "node.log").open("ab") as log:
        process = subprocess.Popen(
            command,
            cwd=CHECKOUT,
            env=place.env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=die_with_parent(signal.SIGKILL),
        )
    try:
        yield psutil.Process(process.pid)
        process.send_signal(signal.SIGTERM)
        if process.wait(NODE_TIMEOUT):
            raise problem(place, f"ended with status {process.returncode}")
    except subprocess.TimeoutExpired:
        raise problem(place, f"has not ended after {NODE_TIMEOUT:.0f} s") from None
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def _cpu_seconds(process: psutil.Process) -> float:
    """The CPU seconds of a process, and of all that it has started."""
    total = 0.0
    for member in (process, *process.children(recursive=True)):
        try:
            total += sum(member.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total


def _submit(place: Place, url: str) -> None:
    """Submits the task; until a node has published the spider, it is tried again."""
    deadline = time.monotonic() + NODE_TIMEOUT
    while (done := manage(place.env, "submit", SPIDER, f"-aurl={url}")).returncode:
        if time.monotonic() > deadline:
            raise problem(place, f"knows no spider: {done.stdout}{done.stderr}")
        time.sleep(POLL_EVERY)


def _wait_for_page(place: Place, site: CountedSite) -> float:
    """The time.monotonic() of the answer."""
    deadline = time.monotonic() + NODE_TIMEOUT
    while not (answered := site.take()).pages:
        if time.monotonic() > deadline:
            raise problem(place, "has fetched nothing")
        time.sleep(POLL_EVERY)
    return answered.first


def _wait_for_redis(place: Place) -> None:
    """Waits until the private server of a place has stopped with its last user; the next start
    makes a new one."""
    deadline = time.monotonic() + NODE_TIMEOUT
    while guardian.ask(place.var / "redis" / "redis.sock", "PING"):
        if time.monotonic() > deadline:
            raise problem(place, "has left its Redis running")
        time.sleep(POLL_EVERY)


def problem(place: Place, what: str) -> RuntimeError:
    """An error that shows the end of the node's log."""
    log = place.var / "node.log"
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
    return RuntimeError(f"the node ({place.name}) {what}; the end of its log:\n{tail}")
