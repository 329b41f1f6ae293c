"""``python -m benchmarks.proxies [--requests N] [--delay S] [--proxies N] [--hosts N] ...``"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import psutil
import psycopg2

from benchmarks.lab import results
from benchmarks.lab.job import run, say, show
from benchmarks.lab.node import CHECKOUT, MANAGE, Node, environment, migrated
from benchmarks.lab.postgres import Postgres
from benchmarks.lab.proxies import ProxyServer, running
from benchmarks.lab.redis import RedisServer
from benchmarks.proxies.origin import ECHO, Origin
from benchmarks.proxies.spiders.sending import LOG

JOB = "proxies"
PACKAGE = "proxiesspiders"
SPIDER = "proxied"
DEAD = 0.3  # part of the proxies that die in the second round
TOLERANCE = 0.001  # seconds: the resolution of what Redis keeps and of timers
AT_ORIGIN = 0.05  # seconds: the same at the origin, as in benchmarks.politeness
CONCURRENCY = 16  # of a worker: more in flight wait for the proxies, which are slow
STEADY = (0.1, 0.9)  # of the arrivals, between which the rate is measured
TIMEOUT = 1800.0
LEASE = 5.0


Times = dict[tuple[str, str], list[float]]
COLUMNS = [
    "violations", "at the origin", "least gap", "at the origin", "of allowed", "way", "slowest",
    "lost", "dead uses", "banned uses", "seconds",
]  # fmt: skip
CAPTION = (
    "Violations: gaps between two requests of a proxy at a host, when they leave the worker, that "
    f"are shorter than the delay by more than {TOLERANCE * 1000:g} ms; at the origin, when the "
    f"kernel has received them, by more than {AT_ORIGIN * 1000:g} ms. Least gap: in delays. Of "
    "allowed: of living proxies x hosts / delay, in the middle 80 % of the requests. Way: ms from "
    "leaving the worker to the origin, in the median, and of the slowest. Dead uses: the most of "
    "one dead proxy, without checks."
)


class Scene(NamedTuple):
    """``faults``: some proxies are dead, one is banned, a node is killed and the code changes."""

    title: str
    faults: bool


REST = 60  # seconds for which a proxy that is blocked at a host rests there first

SCENES = (Scene("all alive", False), Scene("30 % dead, a ban, a kill, a reload", True))


class Result(NamedTuple):
    violations: int  # when sent
    close: int  # violations at the origin
    smallest: float  # gap between two requests of a pair when sent, in delays
    arrived: float  # the same at the origin
    share: float  # of what the intervals of the living pairs allow
    way: float  # seconds through the proxy, median
    slowest: float
    lost: int
    dead_uses: int  # most of one dead proxy
    banned_uses: int
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{JOB}",
        description="Two nodes crawl many hosts through a pool of real proxies, and are judged "
        "from the log of the origin: no two requests of a proxy at a host may be closer than the "
        "delay. "
        "Exit code 1 when a goal is missed. Takes about five minutes.",
    )
    parser.add_argument("--proxies", type=int, default=20)
    parser.add_argument("--hosts", type=int, default=50)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--delay", type=float, default=5.0, help="seconds (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the requests")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    if options.quick:
        options.requests //= 10
        options.hosts = max(1, options.hosts // 5)
    return run(JOB, lambda work: measure(options, work))


def measure(options: argparse.Namespace, work: Path) -> int:
    found = {}
    for number, scene in enumerate(SCENES):
        say(JOB, scene.title)
        place = work / str(number)
        place.mkdir()
        found[scene.title] = _conduct(options, scene, place)
    show(
        f"{options.requests:,} requests, {options.proxies} proxies, {options.hosts} hosts, a delay "
        f"of {options.delay:g} s, two nodes",
        COLUMNS,
        [
            [
                title,
                str(one.violations),
                str(one.close),
                f"{one.smallest:.4f}",
                f"{one.arrived:.3f}",
                f"{one.share:.1%}",
                f"{1000 * one.way:.0f}",
                f"{1000 * one.slowest:.0f}",
                str(one.lost),
                str(one.dead_uses),
                str(one.banned_uses),
                f"{one.seconds:.0f}",
            ]
            for title, one in found.items()
        ],
        CAPTION,
    )
    figures = {title: one._asdict() for title, one in found.items()}
    results.write(JOB, {"options": vars(options) | {"output": ""}, **figures}, options.output)
    return int(any(_problems(one) for one in found.values()))


def _problems(one: Result) -> bool:
    """Not ``close``: how long a proxy keeps a request is not in a node's hands, and those of the
    benchmark share one thread with the origin."""
    allowed = 1 + one.seconds // REST  # of a banned pair: after its rest, one request tries
    return bool(one.violations or one.lost or one.dead_uses > 3 or one.banned_uses > allowed)


@contextmanager
def _servers(options: argparse.Namespace) -> Iterator[tuple[Origin, list[ProxyServer]]]:
    loop, origin = asyncio.new_event_loop(), Origin()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    asyncio.run_coroutine_threadsafe(origin.start(), loop).result(30)
    proxies = [
        ProxyServer(
            "socks5" if number % 4 == 3 else "http",
            f"user{number}:secret",
            source=f"127.0.{1 + number // 200}.{1 + number % 200}",
        )
        for number in range(options.proxies)
    ]
    with running(*proxies):
        yield origin, proxies
    loop.call_soon_threadsafe(origin.stop)
    loop.call_soon_threadsafe(loop.stop)


def _conduct(options: argparse.Namespace, scene: Scene, work: Path) -> Result:
    with ExitStack() as stack:
        origin, proxies = stack.enter_context(_servers(options))
        postgres = stack.enter_context(Postgres())
        redis = stack.enter_context(RedisServer(work / "redis"))
        dsn = postgres.new_database(migrated(postgres, work / "migrate"))
        env = {
            "CRAWLFRAME_PROXY_ECHO": f"http://{ECHO}.localhost:{origin.port}/",
            "CRAWLFRAME_ALLOW_PRIVATE": "127.0.0.0/8 ::1/128",
            "CRAWLFRAME_LEASE": str(LEASE),
            "CRAWLFRAME_BEAT": str(LEASE / 5),
            "CRAWLFRAME_SECRET_KEY": "of the benchmark " * 4,  # that of all, for the credentials
            "PYTHONPATH": str(work),
            LOG: str(work / "sent"),
        }
        _import(work, dsn, redis.url, proxies, env)
        shutil.copytree(Path(__file__).with_name("spiders"), work / PACKAGE)

        def start(name: str) -> Node:
            node = Node(
                work / name, dsn, redis.url, spiders=PACKAGE, name=name, options=("--reload",),
                concurrency=CONCURRENCY, env=env,
            )  # fmt: skip
            return stack.enter_context(node)

        nodes = [start("node1"), start("node2")]
        for node in nodes:
            node.wait_until_known(SPIDER)
        _wait_until_checked(dsn, len(proxies))
        # Only those of HTTP know which requests are checks.
        mortal = [proxy for proxy in proxies if proxy.scheme == "http"]
        dead = mortal[: round(DEAD * len(proxies))] if scene.faults else []
        for proxy in dead:
            proxy.dead = True
        alive = [proxy for proxy in proxies if proxy not in dead]
        if scene.faults:
            origin.banned.add(("h0", alive[0].source))
        began = time.monotonic()
        arguments = {"port": origin.port, "hosts": options.hosts, "requests": options.requests}
        task = _submit(work, dsn, redis.url, env, options.delay, arguments)
        if scene.faults:
            threading.Thread(target=_harm, args=(nodes, work, options, origin), daemon=True).start()
        nodes[0].wait(task, TIMEOUT)
        seconds = time.monotonic() - began
        lost = options.requests - _done(dsn, task)
    pairs = len(alive) * options.hosts - len(origin.banned)
    departures, pages = _sent(work / "sent")
    gaps, sent = _gaps(origin.arrivals), _gaps(departures)
    # Of pages that were sent once: of the others it is not known which one arrived.
    ways = sorted(
        origin.pages[page][0] - times[0]
        for page, times in pages.items()
        if len(times) == 1 == len(origin.pages[page])
    )
    arrivals = sorted(at for times in origin.arrivals.values() for at in times)
    first, last = (arrivals[int(part * (len(arrivals) - 1))] for part in STEADY)
    steady = sum(first <= at < last for at in arrivals)
    return Result(
        sum(gap < options.delay - TOLERANCE for gap in sent),
        sum(gap < options.delay - AT_ORIGIN for gap in gaps),
        min(sent, default=options.delay) / options.delay,
        min(gaps, default=options.delay) / options.delay,
        steady / max(last - first, 0.001) / (pairs / options.delay),
        median(ways),
        ways[-1],
        lost,
        max((proxy.uses["dead"] for proxy in dead), default=0),
        max((len(times) for times in origin.refused.values()), default=0),
        seconds,
    )


def _gaps(times: Mapping[Any, list[float]]) -> list[float]:
    """Between requests of one pair."""
    return [later - earlier for some in times.values() for earlier, later in pairwise(sorted(some))]


def _sent(log: Path) -> tuple[Times, Times]:
    """When requests left the workers, by host and proxy, and by host and path."""
    pairs: Times = defaultdict(list)
    pages: Times = defaultdict(list)
    for line in log.read_text().splitlines():
        at, host, proxy, path = line.split()
        pairs[host, proxy].append(float(at))
        pages[host, path].append(float(at))
    return pairs, pages


def _import(
    work: Path, dsn: str, redis: str, proxies: list[ProxyServer], env: dict[str, str]
) -> None:
    listed = work / "proxies.txt"
    listed.write_text("\n".join(proxy.line for proxy in proxies))
    _manage(work, dsn, redis, env, "proxies", "import", str(listed))


def _submit(
    work: Path, dsn: str, redis: str, env: dict[str, str], delay: float, arguments: dict[str, Any]
) -> int:
    words = [f"-a{name}={value}" for name, value in arguments.items()]
    out = _manage(work, dsn, redis, env, "submit", SPIDER, f"-sdelay={delay:g}", *words)
    return int(out.partition("task ")[2].split()[0])


def _manage(work: Path, dsn: str, redis: str, env: dict[str, str], *words: str) -> str:
    variables = environment(work / "manage", dsn, redis) | env | {"CRAWLFRAME_SPIDERS": PACKAGE}
    done = subprocess.run(
        [*MANAGE, *words], cwd=CHECKOUT, env=variables, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout


def _harm(nodes: list[Node], work: Path, options: argparse.Namespace, origin: Origin) -> None:
    """A third of the way a node is killed, half of the way the code changes."""
    _wait_for(origin, options.requests / 3)
    for process in nodes[1].run.processes():
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    _wait_for(origin, options.requests / 2)
    with (work / PACKAGE / "proxied.py").open("a") as file:
        file.write("\nEDITS = 1\n")


def _wait_for(origin: Origin, arrivals: float) -> None:
    while sum(map(len, origin.arrivals.values())) < arrivals:
        time.sleep(0.2)


def _wait_until_checked(dsn: str, proxies: int) -> None:
    deadline = time.monotonic() + 120
    while _one(dsn, "SELECT count(*) FROM crawlservice_proxy WHERE state = 'working'") < proxies:
        if time.monotonic() > deadline:
            raise RuntimeError("not all proxies have passed their first check")
        time.sleep(0.2)


def _done(dsn: str, task: int) -> int:
    return _one(
        dsn,
        "SELECT count(*) FROM crawlservice_page WHERE state = 'done' AND url LIKE 'http%%' AND "
        f"task_id = {task:d}",
    )


def _one(dsn: str, query: str) -> int:
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(query, ())
        return int(cursor.fetchone()[0])


if __name__ == "__main__":
    sys.exit(main())
