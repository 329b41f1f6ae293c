"""Template: a process that has loaded one version of the spiders' code, and from which the workers
of that version are forked. So all workers run the same code, even if the disk has changed, and
the spiders are imported once."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import parsel  # noqa: F401  # once here, and not again in each worker of each version
import psutil
import selectolax.lexbor  # noqa: F401

import crawlframe.fetch.browser.client
import crawlframe.fetch.requests.downloader  # noqa: F401 # later, the disk may hold another version
from crawlframe.base import faults
from crawlframe.code.imports import marks
from crawlframe.code.registry import NotRenewable, Registry
from crawlframe.code.version import CLOCK_LAG, written
from crawlframe.conf import Settings
from crawlframe.items.encode import item_adapter, uses_item_classes
from crawlframe.node.child_process import CHECKER, Child, Succession, adopt_orphans
from crawlframe.node.code import Code
from crawlframe.node.master import offspring
from crawlframe.node.messages import (
    CodeLoaded,
    FromChildLine,
    GitBusy,
    ImportingModule,
    LoadAll,
    LoadingVersion,
    ToChildLine,
    Unsteady,
    child_line,
    from_child,
)
from crawlframe.node.running_marks import RunningMarks
from crawlframe.node.services import Services
from crawlframe.node.worker.worker import Worker, run_worker

log = logging.getLogger(__name__)

ORDER = struct.Struct("!IQ")  # place of the mark, generation
NO_MARK = (1 << 32) - 1  # in place of a mark: of a checker, which runs no requests
TEMPLATE = NO_MARK - 1  # in place of a mark: of a template
ANSWER = struct.Struct("!Q")  # pid of the new worker; 0 when the fork failed
FORK_TIMEOUT = 5.0  # seconds a fork may take
NICE = 5  # workers yield the processor to the master, the supervisor and a new template
GIT_LOCK_TIMEOUT = 30.0  # seconds git may hold its lock until it counts as left behind


@dataclass
class Template:
    """The master's view of a template process; ``child`` is its process."""

    child: Child
    orders: socket.socket
    changed_at: float = 0.0  # time.monotonic() of the last write of the change that it loads
    ahead: bool = False  # preloaded, and not requested yet
    expected: tuple[str, str] | None = None  # digest and revision, if it was requested meanwhile
    version: str = ""  # the version that it is loading
    loading: str = ""  # the module that it is importing
    loaded: CodeLoaded | None = None
    renewed: bool = False  # forked from another template, with the modules of that
    prepared: bool = False  # workers were forked before the version is live

    @classmethod
    def spawn(
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
        """Forks a process that loads the spiders, without the modules in ``skip``. ``cold``: there
        is no version to fall back on; ``tolerant``: the code may change while it is loaded.
        ``browser``: the socket of the browser host."""
        ours, theirs = _orders()
        master = os.getpid()

        def main(channel: FromChildLine) -> None:
            ours.close()
            if "PYTHONBREAKPOINT" not in os.environ:
                sys.breakpointhook = _at_breakpoint
            process = _TemplateProcess(settings, services, marks, channel, theirs, master, browser)
            offspring.keep(lambda loaded: process.run(skip, cold, tolerant, loaded))

        child = Child.spawn("template", main)
        theirs.close()
        return cls(child, ours)

    def fork(self, role: str, marks: RunningMarks, generation: int) -> Child:
        """A worker of this version. Raises OSError when the template cannot fork or has ended."""
        place = marks.take()
        try:
            pid, channel = self._order(place, generation)
        except OSError:
            marks.give_back(place)
            raise
        worker = Child(role, pid, channel, marks, place)
        worker.origin = self.loaded
        return worker

    def fork_checker(self, *lines: socket.socket) -> Child:
        """A process that replays recorded pages with this version, and gets one end of a line to
        the checker of another version, if there is one. Raises OSError as ``fork``."""
        checker = Child(CHECKER, *self._order(NO_MARK, 0, *(one.fileno() for one in lines)))
        checker.ready = True
        return checker

    def fork_template(self) -> Template:
        """A template that brings the modules of this one up to date. Raises OSError as ``fork``."""
        ours, theirs = _orders()
        try:
            child = Child("template", *self._order(TEMPLATE, 0, theirs.fileno()))
            return Template(child, ours, renewed=True)
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()

    def _order(self, place: int, generation: int, *files: int) -> tuple[int, ToChildLine]:
        """Has the template fork a process, which gets these files. Returns its pid, and our end of
        its channel."""
        ours, theirs = child_line()
        try:
            order = ORDER.pack(place, generation)
            try:
                socket.send_fds(self.orders, [order], [theirs.fileno(), *files])
                answer = self.orders.recv(ANSWER.size)
                if len(answer) < ANSWER.size:
                    raise ConnectionError("it is gone")
            except OSError:  # a late answer would be taken for that to the next order
                if self.child.staying:
                    self.child.kill()
                raise
            (pid,) = ANSWER.unpack(answer)
            if pid == 0:
                raise OSError("it cannot fork")
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        return pid, ours

    def kill(self) -> None:
        """Kills the template; if it is loading, with all processes that its modules started."""
        offspring.kill_with_all(self.child)

    def end(self) -> None:
        """Closes the template's orders, so that it ends by itself; kills it while it is loading."""
        with contextlib.suppress(OSError):  # it is dead
            self.orders.shutdown(socket.SHUT_RDWR)  # later forks of the master hold it too
        self.orders.close()
        if self.loaded is None:
            self.kill()
        elif self.child.staying:
            self.child.retiring_since = time.monotonic()


def _orders() -> tuple[socket.socket, socket.socket]:
    """The master's end of the line for orders, and the template's."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    ours.settimeout(FORK_TIMEOUT)
    return ours, theirs


def _at_breakpoint(*args: Any, **options: Any) -> None:
    """The ``breakpoint()`` of workers, which have no terminal for a debugger: a prompt in
    ``crawl``'s. Arguments for a debugger mean nothing here. Raises SpiderError in a node."""
    from crawlframe.shell.shell import stop  # a prompt is rare, and its modules are large

    stop(sys._getframe(1), "breakpoint", None)


class _TemplateProcess:
    def __init__(
        self,
        settings: Settings,
        services: Services,
        marks: RunningMarks,
        channel: FromChildLine,
        orders: socket.socket,
        master: int,
        browser: Path | None,
    ) -> None:
        self._settings = settings
        self._services = services
        self._marks = marks
        self._channel = channel
        self._orders = orders
        self._master = master
        self._browser = browser
        self._renewable = False

    def run(
        self, skip: Mapping[str, str], cold: bool, tolerant: bool, loaded: Callable[[], None]
    ) -> None:
        """Calls ``loaded`` before it accepts orders."""
        registry = self._load(partial(self._load_all, skip), cold, tolerant, loaded)
        if registry is not None:
            self._obey(registry)

    def renew(self, registry: Registry, loaded: Callable[[], None]) -> None:
        """As ``run``, with the modules that were loaded before."""
        try:
            renewed = self._load(partial(self._renew, registry), False, False, loaded)
        except NotRenewable as error:
            self._channel.send_all(LoadAll(str(error)))
            return
        if renewed is not None:
            self._obey(registry)

    def _obey(self, registry: Registry) -> None:
        """Forks processes until there is nobody to give orders."""
        while True:
            order, fds, _, _ = socket.recv_fds(self._orders, ORDER.size, 2)
            if not fds:
                return
            place, generation = ORDER.unpack(order)
            pid = self._fork(registry, place, generation, fds)
            for one in fds:
                os.close(one)
            if pid == 0:
                self._orders.send(ANSWER.pack(0))

    def _load(
        self,
        load: Callable[[], Registry],
        cold: bool,
        tolerant: bool,
        done: Callable[[], None],
    ) -> Registry | None:
        """Returns None when the tree changed meanwhile, or git is about to change it. If ``cold``,
        nothing else could run, so a lock that git may have left behind does not keep the node down;
        if ``tolerant``, nor does a file that changes all the time."""
        code = self._services.code()
        self._wait_for_git(code)
        began = time.time_ns() - CLOCK_LAG
        before = code.snapshot()
        if before.busy:
            lock = code.checkout and code.checkout.lock
            log.warning("git's lock %s has been there for a long time", lock)
            if not cold:
                self._refuse_lock(code)
                return None
        self._channel.send_all(LoadingVersion(before.version))
        registry, unfit = self._import(load)
        taken, same = before, code.identity() == (before.digest, before.revision)
        if any(path.exists() for path in registry.files) or not same:
            taken = code.snapshot(registry.files)
            same &= code.identity(registry.files) == (taken.digest, taken.revision)
            same &= not written(registry.files, began)
        if not cold and code.busy:
            self._refuse_lock(code)
            return None
        item_classes = uses_item_classes(registry.loaded)
        if item_classes:
            item_adapter()  # once, for all workers that are forked
        changed = registry.changed()
        if changed or not same:
            names = ", ".join(map(str, changed[:5])) or f"a file below {code.spiders}"
            self._channel.send_all(Unsteady(f"{names} changed while the code was loaded"))
            if not tolerant:
                return None
        loaded = CodeLoaded(
            str(code.spiders),
            taken.version,
            taken.digest,
            taken.revision,
            registry.infos,
            registry.broken,
            [str(path) for path in registry.files],
            unfit,
            self._check_marks(registry),
            item_classes,
            self._renewable,
            [] if cold else self._tried(registry),
        )
        self._version = loaded.version
        registry.seal()
        done()
        self._channel.send_all(loaded)
        return registry

    def _wait_for_git(self, code: Code) -> None:
        give_up = time.monotonic() + GIT_LOCK_TIMEOUT
        while code.busy and time.monotonic() < give_up:
            self._channel.send_all(GitBusy())
            time.sleep(0.05)

    def _refuse_lock(self, code: Code) -> None:
        lock = code.checkout and code.checkout.lock
        self._channel.send_all(Unsteady(f"git holds {lock}; if none runs, remove it"))

    def _load_all(self, skip: Mapping[str, str]) -> Registry:
        gc.disable()  # no imported object will be freed
        registry = self._services.registry(skip, self._settings.load_timeout, self._tell)
        gc.freeze()  # a renewal only collects objects of modules that it drops
        return registry

    def _renew(self, registry: Registry) -> Registry:
        self._services.renew(registry, self._settings.load_timeout, self._tell)
        return registry

    def _tell(self, module: str) -> None:
        self._channel.send_all(ImportingModule(module))

    def _import(self, load: Callable[[], Registry]) -> tuple[Registry, str]:
        """Imports the spiders. Returns them, and why no worker can run, "" if they can.
        Threads and processes that the modules start are logged."""
        threads = psutil.Process().num_threads()
        faults.at("reload.load")
        adopt_orphans()  # processes that the modules start stay below this process
        registry = load()
        unfit = self._services.unfit()
        adopt_orphans(False)  # the workers are the master's
        self._channel.send_all(ImportingModule(""))
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a module may have changed it
        started = psutil.Process().num_threads() - threads
        if started > 0:
            log.warning(
                "importing the spiders started %d threads; workers are forked afterwards and do "
                "not have them: start them in the spider's start or __init__",
                started,
            )
        if started_too := offspring.of(os.getpid()):
            log.warning(
                "processes that the import of the spiders started: %d; they end with this version "
                "and its workers",
                len(started_too),
            )
            offspring.end_with_us(started_too)
        self._renewable = registry.renewable and started <= 0 and not started_too
        return registry, unfit

    def _check_marks(self, registry: Registry) -> dict[str, str]:
        """Marks that show whether the code of a spider that is checked has changed."""
        return marks(registry, (one.name for one in registry.infos if one.settings.check))

    def _tried(self, registry: Registry) -> list[str] | None:
        """As in CodeLoaded."""
        if not self._settings.previews or registry.renewed == []:
            return []
        return self._services.with_pages(registry.renewed)

    def _fork(self, registry: Registry, place: int, generation: int, fds: list[int]) -> int:
        """Forks twice: the intermediate process ends at once, and the worker becomes the master's
        child. Returns 0 if that failed."""
        try:
            between = os.fork()
        except OSError as error:
            log.error("no further worker can be forked: %s", error)
            return 0
        if between == 0 and place == TEMPLATE:
            self._fork_child("template", lambda: self._succeed(registry, *fds))
        if between == 0 and place == NO_MARK:
            self._fork_child(CHECKER, lambda: self._check(registry, *fds))
        if between == 0:
            self._fork_child("worker", lambda: self._work(registry, place, generation, *fds))
        os.waitpid(between, 0)
        return between

    def _fork_child(self, role: str, work: Callable[[], None]) -> None:
        worker = 0
        try:
            worker = os.fork()
            if worker == 0:
                raise Succession(role, self._master, work)
        except OSError as error:
            log.error("no further worker can be forked: %s", error)
        try:
            self._orders.send(ANSWER.pack(worker))
        finally:
            os._exit(0)

    def _succeed(self, registry: Registry, end: int, orders: int) -> None:
        """The life of the next template."""
        self._channel.close()
        self._orders.close()
        self._channel = from_child(socket.socket(fileno=end))
        self._orders = socket.socket(fileno=orders)
        offspring.keep(partial(self.renew, registry))

    def _check(self, registry: Registry, end: int, *lines: int) -> None:
        with contextlib.suppress(OSError):  # where memory is short, it goes before the workers do
            Path("/proc/self/oom_score_adj").write_text("1000")
        line = socket.socket(fileno=lines[0]) if lines else None
        self._services.run_checker(registry, self._version, self._begin(end), line)

    def _begin(self, end: int) -> FromChildLine:
        """First step of each process that was forked from here. Returns its channel."""
        self._channel.close()
        self._orders.close()
        gc.freeze()  # so that the garbage collector does not copy shared memory
        gc.enable()
        os.nice(NICE)
        return from_child(socket.socket(fileno=end))

    def _work(self, registry: Registry, place: int, generation: int, end: int) -> None:
        channel = self._begin(end)
        worker = Worker(
            self._settings,
            self._services,
            registry,
            self._version,
            generation,
            channel,
            partial(self._marks.write, place),
            self._browser,
        )
        run_worker(worker)
