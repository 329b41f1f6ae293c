"""The same site on a real server, watched by a real node whose clock is driven: it stands still
until all that is due has been visited, then runs ahead by an hour."""

from __future__ import annotations

import bisect
import json
import random
import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psycopg2

from benchmarks.lab.job import say
from benchmarks.lab.node import Node, environment, manage, migrated
from benchmarks.lab.postgres import Postgres
from benchmarks.lab.redis import RedisServer
from benchmarks.revisit.world import Run, Site

HOUR, DAY = 3600.0, 86400.0  # seconds
SPIDERS = "benchmarks.revisit.spiders"
PATIENCE = 600.0  # real seconds for the visits of one hour
UNLIMITED = 1e9  # requests per day, for the first pass
POLL = 0.05


class Clock:
    """The simulated time in seconds; ``file`` tells the node by how much it is ahead."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._ahead, self._began = 0.0, time.time()
        self._write()

    def now(self) -> float:
        return time.time() - self._began + self._ahead

    def advance(self, seconds: float) -> None:
        self._ahead += seconds
        self._write()

    def _write(self) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(str(self._ahead))
        new.rename(self.file)  # never seen half written


class Changing:
    """The server. ``visits``: page -> times at which it was fetched."""

    def __init__(self, site: Site, clock: Clock, days: int, seed: int = 1) -> None:
        draw = random.Random(seed)
        self.visits: dict[int, list[float]] = defaultdict(list)
        self.changes = [[*_changes(draw, rate / DAY, (days + 2) * DAY)] for rate in site.rates]
        served = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                page = int(re.match(r"/(\d+)", self.path)[1])  # type: ignore[index]
                now = clock.now()
                served.visits[page].append(now)
                version = bisect.bisect(served.changes[page], now)
                body = f"<html><body>page {page}, version {version}</body></html>".encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def fresh(self, site: Site, begin: float, end: float) -> float:
        """The weighted share of this time in which the pages were as at their last visits."""
        whole = 0.0
        for page, weight in enumerate(site.importance):
            visits, changes = sorted(self.visits[page]), self.changes[page]
            for at, following in zip(visits, [*visits[1:], end], strict=True):
                place = bisect.bisect(changes, at)
                stale = changes[place] if place < len(changes) else end
                whole += weight * max(0.0, min(stale, following, end) - max(at, begin))
        return whole / sum(site.importance) / (end - begin)


def _changes(draw: random.Random, rate: float, until: float) -> Iterator[float]:
    at = draw.expovariate(rate)
    while at < until:
        yield at
        at += draw.expovariate(rate)


def measure(site: Site, share: float, days: int, work: Path) -> Run:
    """Watches the site for some days, with a budget of this share of its changes. Raises
    RuntimeError."""
    clock = Clock(work / "clock")
    budget = share * sum(site.rates)
    with (
        closing(Changing(site, clock, days)) as server,
        Postgres() as postgres,
        RedisServer(work / "redis") as redis,
    ):
        dsn = postgres.new_database(migrated(postgres, work / "migrate"))
        urls = work / "urls"
        urls.write_text(
            "\n".join(f"{server.url}/{n}?w={w:.6f}" for n, w in enumerate(site.importance))
        )
        more = {"WATCH_CLOCK": str(clock.file), "CRAWLFRAME_SPIDERS": SPIDERS}
        env = environment(work / "node", dsn, redis.url) | more
        with (
            Node(work / "node", dsn, redis.url, spiders=SPIDERS, env=more) as node,
            closing(psycopg2.connect(dsn)) as connection,
        ):
            connection.autocommit = True
            node.wait_until_known("changing")
            _manage(env, "watch", "changing", f"-aurls={urls}")
            watching = _Watching(node, connection, clock)
            watching.settle(len(site.rates))
            _manage(env, "watch", "1", f"--budget={budget:.6f}")
            first, begin = sum(map(len, server.visits.values())), clock.now()
            for hour in range(24 * days):
                clock.advance(HOUR)
                watching.wait()
                if hour % 24 == 23:
                    fresh = server.fresh(site, begin, clock.now())
                    say("revisit", f"day {hour // 24 + 1}: {fresh:.3f} of the time up to date")
            end = clock.now()
        visits = sum(map(len, server.visits.values())) - first
        half = begin + (end - begin) / 2
        return Run(server.fresh(site, begin, end), server.fresh(site, half, end), visits)


def _manage(env: dict[str, str], *words: str) -> None:
    done = manage(env, *words)
    if done.returncode:
        raise RuntimeError(f"manage.py {' '.join(words)}: {done.stderr[-2000:]}")


class _Watching:
    """When the node has visited all that it may."""

    def __init__(self, node: Node, connection: Any, clock: Clock) -> None:
        self._node, self._connection, self._clock = node, connection, clock
        self._began = time.time() - clock.now()

    def settle(self, pages: int) -> None:
        """Waits for the first pass."""
        with self._patient() as until:
            query = "SELECT count(*) FROM crawlservice_watchedpage WHERE visits > 0"
            while self._one(query)[0] < pages:
                until()

    def wait(self) -> None:
        """Waits until the budget is spent, or nothing is due, and no round is under way."""
        asked = self._clock.now() + self._began
        with self._patient() as until:
            while True:
                (groups,) = self._one("SELECT groups FROM crawlservice_watch")
                group = (groups if isinstance(groups, dict) else json.loads(groups)).get(
                    "parse", {}
                )
                if group.get("tokens_at", 0) >= asked and self._rests(group.get("tokens", 0)):
                    return
                until()

    def _rests(self, tokens: float) -> bool:
        active = "SELECT count(*) FROM crawlservice_task WHERE finished_at IS NULL"
        if self._one(active)[0]:
            return False
        at = self._clock.now() + self._began
        due = (
            "SELECT count(*) FROM crawlservice_watchedpage WHERE rid IS NULL "
            f"AND next_at <= to_timestamp({at})"
        )
        return tokens < 1 or not self._one(due)[0]

    def _one(self, query: str) -> Any:
        with self._connection.cursor() as cursor:
            cursor.execute(query)
            return cursor.fetchone()

    @contextmanager
    def _patient(self) -> Iterator[Any]:
        deadline = time.monotonic() + PATIENCE

        def until() -> None:
            if not self._node.run.lives():
                raise self._node.run.problem("ended")
            if time.monotonic() > deadline:
                raise self._node.run.problem(f"has not visited what is due in {PATIENCE:.0f} s")
            time.sleep(POLL)

        yield until
