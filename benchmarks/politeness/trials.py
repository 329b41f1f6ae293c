"""Trials: crawls of many hosts at once, whose logs must not show a single fault."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from benchmarks.lab.node import migrated
from benchmarks.lab.postgres import Postgres
from benchmarks.lab.redis import RedisServer
from benchmarks.politeness import manners
from benchmarks.politeness.cluster import SPIDER, Cluster
from benchmarks.politeness.spiders.names import ADDRESS
from benchmarks.politeness.spiders.polite import Shared
from benchmarks.politeness.world import ROBOTS, Entry, Host, World

Place = tuple[str, str]  # host and path
SECONDS, QUICK_SECONDS = 60.0, 12.0  # that the delays alone take
DISTURBED = (0.2, 0.4, 0.7)  # parts of that after which something happens to the nodes
LOOK_EVERY = 0.2  # seconds between two looks into the log
AT_LEAST = 0.95  # of the rate that the delay of an address allows
FORBIDDEN = "/private/"


class Trial(NamedTuple):
    """``places`` are crawled by one task; ``judge`` returns the faults in the log of its hosts."""

    name: str
    title: str
    hosts: list[Host]
    places: list[Place]
    judge: Callable[[Sequence[Entry]], list[str]]
    spider: str = SPIDER


def undergo(
    trials: Sequence[Trial],
    world: World,
    cluster: Cluster,
    timeout: float,
    disturbances: Sequence[tuple[float, Callable[[], None]]] = (),
) -> dict[str, list[str]]:
    """Runs all trials at the same time, and returns the faults of each by its name. A disturbance
    is done so many seconds after the start, but not before every host was asked for a page: the
    robots.txt that a node is fetching when it is lost must be fetched again, by another."""
    tasks = {
        trial.name: cluster.submit((world.url(*place) for place in trial.places), trial.spider)
        for trial in trials
    }
    started = time.monotonic()
    hosts = {host.name for trial in trials for host in trial.hosts}
    while disturbances and time.monotonic() < started + timeout:
        if hosts <= {one.host for one in world.entries() if one.path != ROBOTS}:
            break
        time.sleep(LOOK_EVERY)
    for after, disturb in disturbances:
        time.sleep(max(0.0, started + after - time.monotonic()))
        disturb()
    ended = {
        name: cluster.wait(task, started + timeout - time.monotonic())
        for name, task in tasks.items()
    }
    log = world.entries()
    faults = {}
    for trial in trials:
        names = {host.name for host in trial.hosts}
        faults[trial.name] = trial.judge([one for one in log if one.host in names])
        if not ended[trial.name]:
            faults[trial.name].append(f"not ended after {timeout:.0f} s")
    return faults


def conduct(trials: Sequence[Trial], work: Path, quick: bool) -> dict[str, list[str]]:
    """Runs all trials on servers of their own, while the code is changed twice and a node is lost;
    returns the faults. ``work`` is an empty directory."""
    length = QUICK_SECONDS if quick else SECONDS
    servers = [host for trial in trials for host in trial.hosts]
    with (
        World(servers, work / "log") as world,
        RedisServer(work / "redis") as redis,
        Postgres() as postgres,
    ):
        dsn = migrated(postgres, work / "tables")
        with Cluster(work / "nodes", dsn, redis.url) as cluster:
            times = zip(DISTURBED, (cluster.reload, cluster.lose, cluster.reload), strict=True)
            return undergo(
                trials, world, cluster, 4 * length + 60,
                [(part * length, disturb) for part, disturb in times],
            )  # fmt: skip


def all_of_them(quick: bool) -> list[Trial]:
    if quick:
        return [
            crawl_delays(10, QUICK_SECONDS),
            robots(20, 3),
            redirects(6, 3, 4),
            shared_addresses(20, 2, QUICK_SECONDS),
        ]
    return [
        crawl_delays(100, SECONDS),
        robots(200, 5),
        redirects(30, 6, 15),
        shared_addresses(200, 4, SECONDS),
    ]


def crawl_delays(
    hosts: int,
    seconds: float,
    least: float = 0.2,
    most: float = 2.0,
    jitter: float = manners.JITTER,
) -> Trial:
    """``hosts`` whose robots.txt names delays from ``least`` to ``most`` seconds, each with as many
    pages as it allows in ``seconds``. ``jitter``: see ``manners.too_close``."""
    step = (most - least) / max(1, hosts - 1)
    delays = {_address(1, number): round(least + number * step, 2) for number in range(hosts)}
    servers = [
        Host(name, robots=f"User-agent: *\nCrawl-delay: {delay}\n")
        for name, delay in delays.items()
    ]
    places = [
        (name, f"/page/{number}")
        for name, delay in delays.items()
        for number in range(int(seconds / delay) + 1)
    ]

    def judge(log: Sequence[Entry]) -> list[str]:
        return manners.too_close(log, delays, jitter) + manners.unanswered(log, places)

    title = f"{hosts} hosts with a Crawl-delay of {least:g} to {most:g} s"
    return Trial("delays", title, servers, places, judge)


def robots(hosts: int, pages: int) -> Trial:
    """``hosts`` whose robots.txt comes slowly and forbids half of the URLs; ``pages`` are allowed
    at each."""
    servers = [
        Host(
            _address(2, number),
            robots=f"User-agent: *\nDisallow: {FORBIDDEN}\n",
            robots_latency=0.05 * (number % 10),
        )
        for number in range(hosts)
    ]
    allowed = [(one.name, f"/page/{number}") for one in servers for number in range(pages)]
    banned = [(one.name, f"{FORBIDDEN}{number}") for one in servers for number in range(pages)]

    def judge(log: Sequence[Entry]) -> list[str]:
        return manners.robots_faults(log, servers, [FORBIDDEN]) + manners.unanswered(log, allowed)

    return Trial("robots", f"{hosts} hosts with a robots.txt", servers, banned + allowed, judge)


def redirects(
    chains: int, hops: int, hosts: int, delay: float = 1.0, jitter: float = manners.JITTER
) -> Trial:
    """``chains`` of ``hops`` redirects over ``hosts`` with a Crawl-delay. Every third hop stays on
    its host."""
    names = [_address(3, number) for number in range(hosts)]
    paths: list[list[Place]] = []
    for chain in range(chains):
        at = [chain + hop - hop // 3 for hop in range(hops + 1)]
        paths.append(
            [(names[place % hosts], f"/chain/{chain}/{hop}") for hop, place in enumerate(at)]
        )
    servers = [
        Host(
            name,
            robots=f"User-agent: *\nCrawl-delay: {delay}\n",
            moved={
                one[1]: other for path in paths for one, other in pairwise(path) if one[0] == name
            },
        )
        for name in names
    ]

    def judge(log: Sequence[Entry]) -> list[str]:
        delays = dict.fromkeys(names, delay)
        return manners.too_close(log, delays, jitter) + manners.broken_chains(log, paths)

    title = f"{chains} chains of {hops} redirects over {hosts} hosts with a delay of {delay:g} s"
    return Trial("redirects", title, servers, [path[0] for path in paths], judge)


def shared_addresses(
    names: int,
    addresses: int,
    seconds: float,
    jitter: float = manners.JITTER,
    share: float = AT_LEAST,
) -> Trial:
    """``names`` on ``addresses``, with as many pages as the addresses allow in ``seconds``, of
    which each gets at least ``share``. ``jitter``: see ``manners.too_close``."""
    servers = [
        Host(f"n{number}.a{number % addresses}.test", ADDRESS.format(number % addresses + 1))
        for number in range(names)
    ]
    pages = max(1, int(seconds / Shared.settings["ip"]["delay"] * addresses / names))
    places = [(one.name, f"/page/{number}") for number in range(pages) for one in servers]

    def judge(log: Sequence[Entry]) -> list[str]:
        delay = Shared.settings["ip"]["delay"]
        together = [one for each in manners.by_address(log, servers).values() for one in each]
        return [
            *manners.too_close(
                together, dict.fromkeys({one.host for one in together}, delay), jitter
            ),
            *manners.crowded(log, servers, Shared.settings["ip"]["concurrency"]),
            *manners.too_slow(log, servers, delay, share),
            *manners.unanswered(log, places),
        ]

    title = f"{names} names on {addresses} addresses"
    return Trial("addresses", title, servers, places, judge, Shared.name)


def _address(net: int, number: int) -> str:
    """An address of its own for each number, in nets that do not overlap."""
    return f"127.1{net}.{number // 250}.{number % 250 + 1}"
