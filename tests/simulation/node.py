"""Node: the processes of a simulated node. The supervisor and the template, which fork and import,
are the simulation's; master, workers and steward are the product's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from redis import RedisError

from crawlframe.base import processes
from crawlframe.code.registry import Registry
from crawlframe.conf import Settings
from crawlframe.errors import CrawlframeError
from crawlframe.frontier.cluster import affinity
from crawlframe.node import child_process, supervisor_messages
from crawlframe.node.channel import ChannelClosed, pair
from crawlframe.node.master import generation, master, stalls, worker_pool
from crawlframe.node.master.supervisor_link import SupervisorLink
from crawlframe.node.master.template import Template
from crawlframe.node.messages import CodeLoaded, FromChildLine, LoadingVersion, child_line
from crawlframe.node.running_marks import RunningMarks
from crawlframe.node.worker import worker
from crawlservice.services import DjangoServices
from tests.simulation import site
from tests.simulation.interpreter import SYSTEM, run_loop
from tests.simulation.scheduler import Exited, Killed, Machine, Process

log = logging.getLogger(__name__)

RESTART = 0.5  # seconds until a supervisor starts a master that died again
PLACE = "simulated/{}"


def spawn(role: str, main: Callable[[], object], parent: Process) -> Process:
    """A child process that ends as the product's do."""

    def run() -> None:
        try:
            main()
        except CrawlframeError as error:
            log.error("%s failed: %s", role, error)
            raise SystemExit(1) from None
        except (Killed, Exited, SystemExit):
            raise
        except BaseException as error:
            SYSTEM.scheduler.on_crash(SYSTEM.thread, error)
            raise SystemExit(1) from None

    return SYSTEM.scheduler.process(parent.machine, role, run, parent)


class Child(child_process.Child):
    @classmethod
    def spawn(cls, role: str, main: Callable[[FromChildLine], None]) -> child_process.Child:
        ours, theirs = child_line()
        process = SYSTEM.process
        assert process is not None
        made = spawn(role, lambda: main(theirs), process)
        theirs._sock.own(made)  # type: ignore[attr-defined]
        return child_process.Child(role, made.pid, ours)


@dataclass
class SimulatedTemplate(Template):
    """Loads the version that its node has, and starts workers of it."""

    registry: Registry | None = None
    services: Any = None
    settings: Settings | None = None

    @classmethod
    def spawn(  # type: ignore[override]
        cls,
        settings: Settings,
        services: Services,
        marks: RunningMarks,
        skip: Mapping[str, str],
        *,
        cold: bool,
        tolerant: bool,
        browser: Path | None = None,
    ) -> Template:
        pair: tuple[Any, Any] = SYSTEM.sockets.pair()
        ours, theirs = pair
        version = services.versions.now

        def main(channel: FromChildLine) -> None:
            channel.send(LoadingVersion(version.label))
            SYSTEM.scheduler.wait(services.versions.load_time())
            channel.send(version.loaded(services.registry_found))
            theirs.recv(1)  # until the orders are closed

        child = Child.spawn("template", main)
        theirs.own(SYSTEM.scheduler.processes[child.pid])
        return cls(
            child, ours, registry=services.registry_found, services=services, settings=settings
        )

    def fork(self, role: str, marks: RunningMarks, generation: int) -> child_process.Child:
        process = SYSTEM.process
        assert process is not None
        assert self.settings is not None
        assert self.registry is not None
        if not SYSTEM.scheduler.processes[self.child.pid].alive:
            raise ConnectionError("it is gone")
        place = marks.take()
        ours, theirs = child_line()
        settings, services, registry, version = (
            self.settings, self.services, self.registry, self.version,
        )  # fmt: skip

        def main() -> None:
            made = worker.Worker(
                *(settings, services, registry, version, generation, theirs),
                lambda slot, rid: marks.write(place, slot, rid),
            )
            SYSTEM.process.namespace["worker"] = made  # type: ignore[union-attr]
            worker.run_worker(made)

        made = spawn(role, main, process)
        theirs._sock.own(made)  # type: ignore[attr-defined]
        child = child_process.Child(role, made.pid, ours, marks, place)
        child.origin = self.loaded
        return child

    def kill(self) -> None:
        self.child.kill()


@dataclass(frozen=True)
class Version:
    """A state of the spiders' code."""

    label: str
    broken: Mapping[str, str] = field(default_factory=dict)

    def loaded(self, registry: Registry) -> CodeLoaded:
        infos = [] if self.broken else registry.infos
        return CodeLoaded("/spiders", self.label, self.label, "", infos, dict(self.broken), [])


class Versions:
    """The code on the disk of one node."""

    def __init__(self) -> None:
        self.now = Version("v1")

    def load_time(self) -> float:
        return 0.1 + 0.3 * SYSTEM.scheduler.random.random()


class Services(DjangoServices):
    """The product's services, with a registry that is loaded already."""

    def __init__(self, settings: Settings, registry: Registry, versions: Versions) -> None:
        code: Any = SimpleNamespace(engine_paths=[])  # nothing is watched
        super().__init__(settings, "redis://simulated", code)
        self.registry_found, self.versions = registry, versions


class Node:
    """One machine with a supervisor."""

    def __init__(self, name: str, settings: Settings, registry: Registry) -> None:
        self.machine = Machine(name)
        self.settings = replace(settings, node=name)
        self.registry = registry
        self.versions = Versions()
        self.process: Process | None = None
        self._lines: list[Any] = []

    def start(self) -> None:
        self.process = SYSTEM.scheduler.process(self.machine, "supervisor", self._supervise, None)

    def kill(self) -> None:
        """A power failure."""
        if self.process is not None and self.process.alive:
            SYSTEM.scheduler.kill(self.process)

    def change(self, version: Version) -> None:
        """New code on its disk, which the supervisor sees."""
        self.versions.now = version
        for line in self._lines:
            message = supervisor_messages.Reload(SYSTEM.scheduler.now, version.label, "")
            try:
                line.send(message)
            except (ChannelClosed, OSError):
                pass

    def _supervise(self) -> None:
        """Keeps a master running."""
        me = SYSTEM.process
        assert me is not None
        while True:
            ours, theirs = supervisor_pair()
            made = spawn("master", partial(self._master, theirs), me)
            theirs._sock.own(made)
            self._lines = [ours]
            hello = False
            while made.alive:
                SYSTEM.sockets.select([ours], [], [], 60.0)
                try:
                    ours.receive()
                except ChannelClosed:
                    SYSTEM.scheduler.wait(0.01)
                    continue
                if not hello:
                    hello = True
                    ours.send(
                        supervisor_messages.HelloReply(
                            supervisor_messages.InitialState(
                                [], None, SYSTEM.scheduler.now, "", "", "", 0, 0
                            )
                        )
                    )
            self._lines = []
            ours.close()
            SYSTEM.scheduler.wait(RESTART)

    def _master(self, line: Any) -> None:
        services = Services(self.settings, self.registry, self.versions)
        try:
            status = master.Master(self.settings, services, link=SupervisorLink(line)).run()
        except RedisError as error:  # its command ends with these words
            log.error("the master ends: %s", error)
            status = 1
        raise SystemExit(status)


def supervisor_pair() -> Any:
    """The supervisor's end and the master's."""
    to, from_ = supervisor_messages._FROM_MASTER, supervisor_messages._TO_MASTER
    return pair(to, from_)


class _Psutil:
    """In place of psutil in the modules of a node."""

    Error = type("Error", (Exception,), {})
    NoSuchProcess = type("NoSuchProcess", (Error,), {})
    STATUS_RUNNING, STATUS_ZOMBIE = "running", "zombie"

    class Process:
        def __init__(self, pid: int | None = None) -> None:
            self.pid = pid

        def memory_info(self) -> Any:
            return SimpleNamespace(rss=50 << 20)

        def status(self) -> str:
            return "sleeping"

        def threads(self) -> list[Any]:
            return []

        def cpu_times(self) -> Any:
            return SimpleNamespace(user=0.0, system=0.0)

    @staticmethod
    def disk_usage(path: str) -> Any:
        return SimpleNamespace(percent=10.0)


class _Shortage:
    def watch(self) -> None:
        pass

    def is_here(self) -> bool:
        return False


def _place() -> str:
    return PLACE.format(_machine())


def _machine() -> str:
    return SYSTEM.process.machine.name if SYSTEM.process is not None else ""


def _runs(pid: int, since: float) -> bool:
    found = SYSTEM.scheduler.processes.get(pid)
    return found is not None and found.alive and abs(found.born - since) < 1


_GC = SimpleNamespace(
    collect=lambda: 0,
    freeze=lambda: None,
    get_threshold=lambda: (0, 0, 0),
    set_threshold=lambda *numbers: None,
)
REPLACED: dict[Any, dict[str, Any]] = {
    worker_pool: {
        "Child": Child,
        "Shortage": _Shortage,
        "Template": SimulatedTemplate,
        "psutil": _Psutil,
    },
    worker: {
        "Downloader": site.SimulatedDownloader,
        "gc": _GC,
        "psutil": _Psutil,
        "return_large_blocks": lambda: None,
        "uvloop": SimpleNamespace(run=run_loop),
    },
    stalls: {"_worked": lambda process: stalls._Worked(0.0, 0.0), "psutil": _Psutil},
    master: {"adopt_orphans": lambda: None, "gc": _GC},
    processes: {
        "born": lambda pid: SYSTEM.scheduler.processes[pid].born,
        "place": _place,
        "runs": _runs,
    },
    generation: {"socket": SimpleNamespace(gethostname=_machine)},
    affinity: {"_weight": cache(affinity._weight)},  # all nodes of all seeds have the same names
}


def install() -> None:
    """Puts the simulation's processes in place of the product's."""
    for module, names in REPLACED.items():
        for name, value in names.items():
            setattr(module, name, value)
