"""Simulation: one seed from its first step to its verdict."""

from __future__ import annotations

import logging
import math
import random
import sqlite3
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from django.db import connections

from crawlframe.base import faults as points
from tests.simulation import database
from tests.simulation.cluster import Cluster, Setup
from tests.simulation.faults import Fault, schedule
from tests.simulation.interpreter import SYSTEM
from tests.simulation.judges import judge_database, judge_web
from tests.simulation.node import Version
from tests.simulation.orders import PACES, Order, drawn_orders, resume_all
from tests.simulation.quiet import Quiet
from tests.simulation.scheduler import Process
from tests.simulation.site import SITES

CALM = 150.0  # seconds after the last fault in which everything must have ended
SETTLE = 30.0  # seconds after the last fault until the cluster is quiet
SET_BACK = ("redis back", "redis fails over")
LOSSES = (*SET_BACK, "redis emptied")
DATABASE_ERRORS = {  # of SQLite
    "database away": "database is locked",
    "database full": "database or disk is full",
    "database read-only": "attempt to write a readonly database",
}
LOOK = 1.0  # seconds between two audits of Redis


@dataclass
class Result:
    seed: int
    nodes: int
    faults: Sequence[Fault]
    simulated: float = 0.0
    steps: int = 0
    crawls: int = 0
    fetches: int = 0
    longest_end: float = 0.0  # seconds from the last request of a task to its end, in quiet
    trace: int = 0
    violations: list[str] = field(default_factory=list)
    timeline: deque[str] = field(default_factory=lambda: deque(maxlen=200_000))


@dataclass(eq=False)
class Armed:
    """A fault at a named point. ``left``: weight of the points that are passed before."""

    fault: Fault
    left: float


class Simulation:
    """``number``: of faults; each fifth seed has none, and is judged most strictly. ``faults``:
    instead of the seed's own."""

    def __init__(
        self,
        setup: Setup,
        seed: int,
        *,
        number: int = 8,
        faults: Sequence[Fault] | None = None,
    ) -> None:
        chance = random.Random(f"world {seed}")
        self.nodes = chance.choice((1, 2, 3, 3))
        self.length = chance.choice((4.0, 8.0, 16.0))
        self.pace = chance.choice(PACES)
        site = chance.choice(SITES)
        self.orders = [*drawn_orders(chance, self.length, seed, self.pace, site.sizes)]
        if faults is None:
            faults = schedule(seed, self.length, number if seed % 5 else 0, self.nodes)
        self.result = Result(seed, self.nodes, faults)
        self.cluster = Cluster(setup, seed, self.nodes, site)
        self._quiet = Quiet(self.cluster.frontier, self.cluster.web)
        self._quiet_from = math.inf if faults else 0.0  # seconds
        self._armed: list[Armed] = []
        self._passed: Counter[str] = Counter()  # points: rare ones weigh as much as common ones
        self._database: dict[str, float] = {}  # until when it refuses, by its error
        self._database_errors = 0
        self._versions = 1

    def run(self) -> Result:
        result, cluster, scheduler = self.result, self.cluster, self.cluster.scheduler
        points.at = self._at
        database.DISK.hook = self._on_disk
        cluster.link.note = lambda text: self.say(f"Redis: {text}")
        handler = _Log(self)
        root = logging.getLogger()
        for logger in logging.root.manager.loggerDict.values():
            if isinstance(logger, logging.Logger):
                logger.handlers.clear()
                logger.propagate = True
        root.handlers, before = [handler], root.handlers
        level = root.level
        root.setLevel(logging.INFO)
        try:
            self._go()
            result.violations = result.violations or self._judge()
        finally:
            points.at = points._nowhere
            database.DISK.hook = lambda point: None
            result.simulated, result.steps = scheduler.now, scheduler.steps
            result.fetches = len(cluster.web.fetches)
            result.crawls = sum(order.verb == "submit" for order in self.orders)
            result.trace = scheduler.trace
            result.longest_end = self._quiet.longest
            cluster.close()
            connections.close_all()
            root.handlers = before
            root.setLevel(level)
        return result

    def _go(self) -> None:
        cluster, scheduler = self.cluster, self.cluster.scheduler
        events: list[tuple[float, object]] = [(fault.at, fault) for fault in self.result.faults]
        events += [(order.at, order) for order in self.orders]
        if any(fault.kind in SET_BACK for fault in self.result.faults):
            cluster.link.keep_snapshots()
        cluster.start()
        cluster.run(1.5)
        for at, event in sorted(events, key=lambda one: one[0]):
            self._run(at)
            if isinstance(event, Fault):
                self.say(f"FAULT {event}")
                self._strike(event)
            elif isinstance(event, Order):
                self.say(f"ORDER {event}")
                if problem := cluster.ask(event.carry_out):
                    self.say(f"the order fails: {problem}")
        self._armed.clear()
        cluster.link.fates.clear()
        self._database_errors = 0
        link = cluster.link
        scheduler.run(1.0 + max(
            scheduler.now, link.away_until, link.silent_until, link.full_until,
            *self._database.values(),
        ))  # fmt: skip
        if problem := cluster.ask(resume_all):
            self.say(f"tasks cannot be resumed: {problem}")
        end = scheduler.now + CALM
        for node in cluster.nodes:
            if node.process is None or not node.process.alive:
                node.start()
        paused = [one.paused_until for one in scheduler.processes.values() if one.alive]
        self._quiet_from = min(self._quiet_from, max([scheduler.now, *paused]) + SETTLE)
        while scheduler.now < end and not self.result.violations and cluster.active():
            self._run(scheduler.now + LOOK)

    def _run(self, until: float) -> None:
        """Runs the cluster, and looks at Redis and at the tasks once a second."""
        scheduler = self.cluster.scheduler
        while scheduler.now < until and not self.result.violations:
            scheduler.run(min(until, scheduler.now + LOOK))
            found = self.cluster.audit()
            if scheduler.now > self._quiet_from:
                found += self._quiet.look(scheduler.now, self.cluster.active())
            self.result.violations += [f"at {scheduler.now:.1f} s: {problem}" for problem in found]

    # -- faults -----------------------------------------------------------------------------------

    def _strike(self, fault: Fault) -> None:
        cluster, scheduler = self.cluster, self.cluster.scheduler
        now = scheduler.now
        if fault.kind in LOSSES:
            cluster.web.losses.append(now)
        match fault.kind:
            case "kill":
                self._kill(fault)
            case "pause" if fault.target.endswith("node"):  # a virtual machine
                cluster.nodes[int(fault.target.split()[0])].machine.pause(now + fault.value)
            case "pause":
                if (victim := self._victim(fault)) is not None:
                    victim.paused_until = now + fault.value
            case "point":
                self._armed.append(Armed(fault, fault.value))
            case "redis call":
                cluster.link.fates.extend([(fault.target, fault.step)] * int(fault.value))
            case "redis away":
                cluster.link.away_until = now + fault.value
            case "redis silent":
                cluster.link.silent_until = now + fault.value
            case "redis emptied":
                cluster.link.store.flush()
            case "redis back":
                self.say(f"Redis is {cluster.link.go_back(fault.value):.1f} s older")
            case "redis fails over":
                lost = cluster.link.fail_over(fault.value, scheduler.random.choice((0.1, 2.0)))
                self.say(f"a replica of Redis takes over, {lost:.1f} s older")
            case "redis full":
                cluster.link.full_until = now + fault.value
            case "database away" | "database full" | "database read-only":
                self._database[fault.kind] = now + fault.value
            case "database error":
                self._database_errors += 1
            case "clock":
                cluster.nodes[int(fault.target)].machine.clock += fault.value
            case "drift":
                cluster.nodes[int(fault.target)].machine.drifts(fault.value, now)
            case "code" | "broken code":
                self._versions += 1
                node = cluster.nodes[int(fault.target)]
                broken = {"walk": "walk.py:1: broken"} if fault.kind == "broken code" else {}
                node.change(Version(f"v{self._versions}", broken))
            case _:
                raise ValueError(fault.kind)

    def _victim(self, fault: Fault) -> Process | None:
        number, _, role = fault.target.partition(" ")
        node = self.cluster.nodes[int(number)]
        role = "supervisor" if role == "node" else role
        found = [one for one in node.machine.processes if one.role == role and one.alive]
        return self.cluster.scheduler.random.choice(found) if found else None

    def _kill(self, fault: Fault) -> None:
        victim = self._victim(fault)
        if victim is None:
            return
        self.say(f"killed: {victim.role} {victim.pid}")
        self.cluster.scheduler.kill(victim)
        if victim.role == "supervisor":
            node = next(one for one in self.cluster.nodes if one.process is victim)
            self.cluster.later(fault.value, node.start)

    def _at(self, point: str, error: type[Exception] = OSError) -> None:
        """In place of the product's fault points."""
        process = SYSTEM.process
        if process is None:
            return
        self.say(f"{process.role} {process.pid}: {point}")
        self._passed[point] += 1
        struck = None
        for armed in self._armed:
            fault = armed.fault
            vain = fault.target.endswith("fail at") and error is OSError  # none is expected
            if fault.step:
                here = process.machine is not self.cluster.service
                here = here and point.startswith(f"{fault.step}.")
            else:
                machine = self.cluster.nodes[int(fault.target.partition(" ")[0])].machine
                here = process.machine is machine
            if here and not vain:
                armed.left -= 1 if fault.step else 1 / self._passed[point]
                struck = struck or (armed if armed.left < 0 else None)
        if struck is None:
            return
        self._armed.remove(struck)
        action = struck.fault.target.partition(" ")[2]
        self.say(f"STRIKES {action} {point}: {process.role} {process.pid}")
        scheduler = self.cluster.scheduler
        if action == "kill at":
            scheduler.kill(process)
        elif action == "pause at":
            scheduler.wait(scheduler.random.choice((0.5, 6.0, 20.0)))
        elif action == "freeze at":  # about as long as it takes to be declared dead
            seconds = self.cluster.lease + 3.0 * scheduler.random.random()
            process.machine.pause(scheduler.now + scheduler.random.choice((0.5, seconds)))
            scheduler.wait(0.0)
        else:
            raise error(f"simulated failure at {point}")

    def _on_disk(self, point: str) -> None:
        if SYSTEM.process is None:
            return
        for kind, until in self._database.items():
            if SYSTEM.scheduler.now < until:
                SYSTEM.scheduler.wait(0.001)
                raise sqlite3.OperationalError(DATABASE_ERRORS[kind])
        if self._database_errors:
            self._database_errors -= 1
            self.say(f"the database fails at {point}")
            raise sqlite3.OperationalError("disk I/O error")
        self._at(f"database.{point}", sqlite3.OperationalError)

    # -- verdict ----------------------------------------------------------------------------------

    def _judge(self) -> list[str]:
        cluster = self.cluster
        found = [f"crash: {text}" for text in cluster.crashes]
        explained = 10**9 if self.result.faults else cluster.web.explained
        found += cluster.call(lambda: [*judge_database()], 600.0)
        found += judge_web(cluster.web, self.pace, explained=explained)
        return found

    def say(self, text: str) -> None:
        """Adds a line to the timeline."""
        self.result.timeline.append(f"{self.cluster.scheduler.now:9.4f} {text}")


class _Log(logging.Handler):
    """Lines of the product's log in the timeline."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__()
        self._simulation = simulation

    def emit(self, record: logging.LogRecord) -> None:
        process = SYSTEM.process
        if process is not None and not process.alive:
            return  # its last words are of being killed
        where = f"{process.machine.name} {process.role} {process.pid}" if process else "-"
        text = record.getMessage()
        if record.exc_info:
            text += f"\n{self.format(record)}"
        self._simulation.say(f"{where}: {record.levelname} {text}")
