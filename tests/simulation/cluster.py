"""Cluster: one seed's world - a database, a Redis, a web service and nodes - from its start to its
end."""

from __future__ import annotations

import asyncio
import re
import shutil
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

from django.conf import settings as django_settings
from django.core.management import call_command
from django.db import DatabaseError, connections
from django.db.models import Q
from redis import RedisError

from crawlframe.code.registry import Registry
from crawlframe.conf import Settings
from crawlframe.errors import CrawlframeError
from crawlframe.frontier import Frontier, frontier
from crawlframe.frontier.client import batches, connection
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.load_spiders import load_spiders
from crawlframe.node.master import claims
from crawlservice.connections import frontier as frontiers
from crawlservice.connections.contained import failures
from crawlservice.models import Task
from tests.simulation import database
from tests.simulation.interpreter import SYSTEM, close_tasks
from tests.simulation.node import Node
from tests.simulation.redis.client import client
from tests.simulation.redis.store import Store
from tests.simulation.redis_link import RedisLink
from tests.simulation.scheduler import Machine, Process, Thread
from tests.simulation.site import SITES, SimulatedDownloader, Site, Web

T = TypeVar("T")
LEASES = (15.0, 4.0)  # seconds; in short ones, nodes are declared dead while they have requests


class NoAnswer(Exception):
    """A process of the web did not end in time."""


class Setup:
    """Made once for all seeds of a process: an empty database and the spiders."""

    def __init__(self) -> None:
        self.directory = django_settings.VAR_DIR
        self.database = self.directory / "empty.sqlite3"
        django_settings.DATABASES["default"]["NAME"] = str(self.database)
        connections["default"].settings_dict["NAME"] = str(self.database)
        connections["default"].settings_dict["OPTIONS"]["init_command"] = (
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF"
        )
        call_command("migrate", verbosity=0)
        connections.close_all()
        self.settings = Settings.from_env(
            {}, spiders="tests.simulation.spiders", workers=2, concurrency=8
        )
        self.settings = replace(
            self.settings, var_dir=self.directory, browser_pages=0, user_agent="simulation"
        )
        self.registry: Registry = load_spiders(self.settings)
        if self.registry.broken:
            raise RuntimeError(f"the spiders are broken: {self.registry.broken}")


class Cluster:
    """``nodes``: how many."""

    def __init__(self, setup: Setup, seed: int, nodes: int = 3, site: Site = SITES[0]) -> None:
        SYSTEM.use(seed)
        self.scheduler = SYSTEM.scheduler
        self.scheduler.on_exit = self._on_exit
        self.scheduler.on_crash = self._on_crash
        self.crashes: list[str] = []
        self.thefts: list[str] = []
        self.setup = setup
        self.path = setup.directory / f"{seed}.sqlite3"
        shutil.copy(setup.database, self.path)
        connections["default"].settings_dict["NAME"] = str(self.path)
        for kept in (frontiers._frontiers, frontiers._next_check, frontiers._known, failures._rows):
            kept.clear()
        self.link = RedisLink(
            Store(lambda: SYSTEM.scheduler.start + SYSTEM.scheduler.now, seed=seed)
        )
        connection._client = lambda url, options: client(self.link)
        entries = self.scheduler.random.choice((3, 500))
        for module in (frontier, batches):
            vars(module)["MAX_ENTRIES"] = entries
        claims.IDLE_PAUSE = self.scheduler.random.choice((0.1, 0.5))
        self.web = SimulatedDownloader.web = Web(site)
        choice = self.scheduler.random.choice
        lease = self.lease = choice(LEASES)
        settings = replace(
            setup.settings,
            partitions=choice((1, 1, 2)),
            affinity=choice(("off", "host")),
            lease=lease,
            beat=lease / 5,
        )
        django_settings.CRAWLFRAME = settings
        self.nodes = [Node(f"node{number}", settings, setup.registry) for number in range(nodes)]
        self.service = Machine("service")

    def start(self) -> None:
        self.web.on_answer = partial(self._judge_holder, self.frontier.store)
        for one in self.nodes:
            one.start()

    def _judge_holder(self, store: PartitionedStore) -> None:
        """A request that is fetched is held by the claim that gave it to its worker, unless a fault
        explains it."""
        process = SYSTEM.process
        assert process is not None
        worker = process.namespace["worker"]
        claimed = worker._running.get(asyncio.current_task())
        if claimed is None or claimed.rid in worker._foreign:
            return
        keys, ask = store.keys[store.partition_of(claimed.host)], self.link.store.execute
        if process.paused_until or self.web.losses or ask(("GET", keys("ERA"))) != b"1 open":
            return
        generation = worker._generation
        own = ask(("HGET", keys("OWN"), claimed.rid)) or b""
        mine = f"{generation}[.+]{claimed.claim}[|~]".encode()
        if not re.match(mine, own) and not ask(("SISMEMBER", keys("FENCED"), generation)):
            what = f"what {generation}.{claimed.claim} fetches is of {own!r}"
            self.thefts.append(f"at {self.scheduler.now:.1f} s: {what}")

    def call(self, work: Callable[[], T], seconds: float = 60.0) -> T:
        """The result of work that a process of the web does. Raises NoAnswer, and its errors."""
        result: list[T] = []
        failure: list[Exception] = []

        def run() -> None:
            try:
                result.append(work())
            except Exception as error:
                failure.append(error)
            finally:
                connections.close_all()

        made = self.scheduler.process(self.service, "web", run, None)
        end = self.scheduler.now + seconds
        while made.alive and self.scheduler.now < end:
            self.scheduler.run(min(end, self.scheduler.now + 0.05))
        if failure:
            raise failure[0]
        if not result:
            raise NoAnswer(f"the web did not answer within {seconds} s")
        return result[0]

    def ask(self, work: Callable[[], object]) -> str:
        """Does what a user asks the web for. Returns the error that they see, "" if there is
        none."""
        try:
            self.call(work)
        except (CrawlframeError, DatabaseError, RedisError, NoAnswer) as error:
            return f"{type(error).__name__}: {error}"
        return ""

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Does something after some seconds."""

        def run() -> None:
            self.scheduler.wait(seconds)
            act()

        self.scheduler.thread(SYSTEM.network, "later", run)

    def active(self) -> list[int]:
        """The tasks that have not ended, or lack rows of cancelled requests."""
        left = Task.objects.filter(Q(state__in=Task.ACTIVE) | Q(unwritten__isnull=False))
        return [*left.values_list("pk", flat=True)]

    @cached_property
    def frontier(self) -> Frontier:
        """Of the judges, outside of all processes."""
        return Frontier.connect("redis://simulated", django_settings.CRAWLFRAME)

    def audit(self) -> list[str]:
        """Violations in Redis at this instant, unless it is known to be damaged."""
        partitions = range(self.frontier.store.partitions)
        if any(self.frontier.store.era_of(number)[1] != "open" for number in partitions):
            return self.thefts
        return self.thefts + self.frontier.audit()

    def run(self, seconds: float) -> None:
        self.scheduler.run(self.scheduler.now + seconds)

    def close(self) -> None:
        for process in [*self.scheduler.processes.values()]:
            if process.alive and process.parent is None:
                self.scheduler.kill(process)
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)

    def _on_exit(self, process: Process) -> None:
        database.close_connections(process)
        close_tasks(process)

    def _on_crash(self, thread: Thread | None, error: BaseException) -> None:
        where = f"{thread.process.role}/{thread.name}" if thread is not None else "?"
        self.crashes.append(f"{where}: {''.join(traceback.format_exception(error))}")
