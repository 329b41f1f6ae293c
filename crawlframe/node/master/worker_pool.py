"""WorkerPool: the processes of one master: their start, messages, retirement and death. The
requests that they hold are the master's concern."""

from __future__ import annotations

import logging
import os
import selectors
import signal
import socket
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import psutil

from crawlframe.conf import Settings
from crawlframe.frontier.cluster.nodes import DEATHS_WITHIN, NodeHealth
from crawlframe.node.channel import ChannelClosed
from crawlframe.node.child_process import CAN_ADOPT, CHECKER, WORKERS, Child
from crawlframe.node.master.blame import Shortage, blamed
from crawlframe.node.master.browser_process import BrowserSocket
from crawlframe.node.master.template import Template
from crawlframe.node.messages import (
    Beat,
    CodeLoaded,
    FromChild,
    Retire,
    ServiceReady,
    ToChild,
    WorkerReady,
)
from crawlframe.node.running_marks import RunningMarks
from crawlframe.node.services import Services
from crawlframe.node.signals import describe_exit

log = logging.getLogger(__name__)

WRITE_TIME = 5.0  # seconds beyond the grace time in which a worker may write its results
PURPOSES = {"cpu": "callbacks that compute", "isolated": "requests that must run alone"}
OF_TASK = "task {}"  # the role of a worker that runs one task, and is itself its purpose
BOOT_PAUSE = (0.0, 0.5, 1.0, 2.0, 4.0)  # seconds before a role is spawned again after failed starts
LACKING_SECONDS = 10.0  # seconds in which a worker may be replaced before it counts as missing
MAX_CHARS = 200  # characters of the reason for which results wait


class WorkerPool:
    """The processes are registered with ``selector``, each with itself as the data."""

    def __init__(
        self, settings: Settings, services: Services, selector: selectors.BaseSelector
    ) -> None:
        self._settings = settings
        self._services = services
        self._selector = selector
        # There are twice as many workers during a reload; workers of an earlier reload may still be
        # ending.
        self.marks = RunningMarks(8 * settings.workers + 1024, settings.concurrency)
        self.members: list[Child] = []
        self._lost: list[Child] = []  # with closed channels, where deaths are not reported
        self._health = PoolHealth(settings)
        self.hurried = False  # no process gets the grace time
        self.cpu_wanted = False  # one additional worker, for callbacks that compute
        self.isolated_wanted = False  # one additional worker, for requests that must run alone
        self.apart: Iterable[int] = ()  # tasks with one additional worker each
        self._browser = BrowserSocket.open(settings)
        self._shortage = Shortage()
        self._failed_boots = 0
        self._next_spawn = 0.0

    def __iter__(self) -> Iterator[Child]:
        return iter(self.members)

    @property
    def workers(self) -> list[Child]:
        """The workers that take any request."""
        return [child for child in self.members if child.role == "worker" and not child.early]

    @property
    def cpu_worker(self) -> Child | None:
        """The worker for callbacks that compute, if it can be given requests."""
        found = [child for child in self.members if child.role == "cpu" and child.taking]
        return found[0] if found else None

    @property
    def health(self) -> NodeHealth:
        """The health of the pool."""
        return self._health.snapshot(self.members, time.monotonic())

    @property
    def held(self) -> set[bytes]:
        """The rids of all requests held by workers."""
        return {rid for child in self.members for rid in child.held}

    def blamed(self, child: Child, code: int | None) -> frozenset[bytes]:
        """The requests that are responsible for the death of a worker."""
        return blamed(child, code, lack_of_memory=self._shortage.is_here())

    # -- starting ---------------------------------------------------------------------------------

    def add(self, child: Child) -> None:
        self.members.append(child)
        self._selector.register(child.channel, selectors.EVENT_READ, child)

    def start_services(self) -> None:
        """Forks the other processes if they are missing: the steward, which does the chores of the
        cluster, and the keeper of the browser."""
        present = {child.role for child in self.members if child.staying}
        if "steward" not in present:
            self.add(Child.spawn("steward", self._services.run_steward))
        if self._browser is not None and "browser" not in present:
            self.add(self._browser.spawn(self._settings))

    def start_template(self, skip: Mapping[str, str], *, cold: bool, tolerant: bool) -> Template:
        """Forks a template, with the arguments of Template.spawn."""
        template = Template.spawn(
            *(self._settings, self._services, self.marks, skip),
            cold=cold,
            tolerant=tolerant,
            browser=self._browser.path if self._browser is not None else None,
        )
        self.add(template.child)
        return template

    def renew_template(self, template: Template) -> Template | None:
        """Has a template fork its successor; None if that fails."""
        try:
            successor = template.fork_template()
        except OSError:
            return None
        self.add(successor.child)
        return successor

    def start_checker(self, template: Template, *lines: socket.socket) -> Child:
        """Has a template fork the process that replays recorded pages, as ``fork_checker``. Raises
        OSError."""
        checker = template.fork_checker(*lines)
        self.add(checker)
        return checker

    @property
    def may_spawn(self) -> bool:
        """Whether it is not in the pause after failed starts."""
        return time.monotonic() >= self._next_spawn

    def failed_boot(self) -> None:
        """A child ended before it was ready: the next ones wait a little, once per round."""
        if self.may_spawn:
            self._failed_boots += 1
            pause = BOOT_PAUSE[min(self._failed_boots, len(BOOT_PAUSE) - 1)]
            self._next_spawn = time.monotonic() + pause

    def staff(self, template: Template, generation: int) -> None:
        """Forks the missing workers from the live template, and retires as many older ones as new
        ones are ready: at no time do fewer than all work."""
        self._health.staffed = True
        self._staff_one("cpu", self.cpu_wanted, template, generation)
        self._staff_one("isolated", self.isolated_wanted, template, generation)
        wanted = {OF_TASK.format(task) for task in self.apart}
        prefix = OF_TASK.format("")
        for role in wanted.union(c.role for c in self.members if c.role.startswith(prefix)):
            self._staff_one(role, role in wanted, template, generation)
        staying = [child for child in self.workers if child.staying]
        ours = [child for child in staying if child.origin is template.loaded]
        for _ in range(self._settings.workers - len(ours)):
            if not self._fork("worker", template, generation):
                return
        older = [child for child in staying if child.origin is not template.loaded]
        for child in older:
            if not child.ready:  # it holds nothing, and will not be needed
                child.kill()
        working = [child for child in older if child.ready]
        ready = sum(child.ready for child in ours)
        for child in working[: max(0, len(working) + ready - self._settings.workers)]:
            self.retire(child)

    def prepare(self, template: Template | None, generation: int) -> None:
        """Forks the workers of a version that will probably be live in a moment, so that they are
        ready then; ends those of other versions, which were prepared in vain."""
        for child in self.members:
            in_vain = template is None or child.origin is not template.loaded
            if child.early and in_vain and child.staying:
                child.kill()
        if template is not None and not template.prepared:
            template.prepared = True
            for _ in range(self._settings.workers):
                if not self._fork("worker", template, generation):
                    return
                self.members[-1].early = True

    def enlist(self, template: Template) -> list[Child]:
        """The version of a template is live now. Returns its prepared workers that are ready."""
        found = [c for c in self.members if c.early and c.origin is template.loaded]
        for child in found:
            child.early = False
        return [child for child in found if child.ready and child.staying]

    def _staff_one(self, role: str, wanted: bool, template: Template, generation: int) -> None:
        """Forks one worker of this role if it is wanted and missing."""
        present = [child for child in self.members if child.role == role and child.staying]
        missing = wanted and not any(child.origin is template.loaded for child in present)
        if missing and self._fork(role, template, generation):
            log.info("worker %d is for %s", self.members[-1].pid, PURPOSES.get(role, role))
        for child in present:
            if child.ready and not (wanted and child.origin is template.loaded):
                self.retire(child)

    def _fork(self, role: str, template: Template, generation: int) -> bool:
        try:
            self.add(template.fork(role, self.marks, generation))
            return True
        except IndexError:  # too many are still ending
            return False
        except OSError as error:
            log.error("the template %d forks no worker: %s", template.child.pid, error)
            if template.child.staying:
                template.child.kill()
            self.failed_boot()
            return False

    # -- messages ---------------------------------------------------------------------------------

    def send(self, child: Child, message: ToChild) -> None:
        try:
            child.channel.send(message)
        except ChannelClosed:
            return  # it died, which ``dead`` reports
        if child.channel.pending:
            self._selector.modify(
                child.channel, selectors.EVENT_READ | selectors.EVENT_WRITE, child
            )

    def receive(self, child: Child) -> Iterator[FromChild]:
        """Yields the messages of a child, except beats."""
        try:
            messages = child.channel.receive()
        except ChannelClosed:
            if not CAN_ADOPT and (child.works or child.role == CHECKER):
                self._lost.append(child)
            return  # it is dead or dying, which ``dead`` reports
        for message in messages:
            child.last_beat = time.monotonic()
            match message:
                case Beat():
                    child.rss, child.waits = message.memory, message.waits
                    child.stuck = message.stuck
                    child.failures = message.failures
                    continue
                case WorkerReady() | ServiceReady() | CodeLoaded():
                    child.ready = True
                    self._failed_boots = 0
            yield message

    def flush(self, child: Child) -> None:
        try:
            child.channel.flush()
        except ChannelClosed:
            return
        if not child.channel.pending:
            self._selector.modify(child.channel, selectors.EVENT_READ, child)

    # -- retirement and death ---------------------------------------------------------------------

    def retire(self, child: Child) -> None:
        """Asks a child to take nothing new, finish its requests, and end."""
        if child.retiring_since is None:
            child.retiring_since = time.monotonic()
            self.send(child, Retire())

    def dismiss(self) -> None:
        """Ends all processes."""
        for child in self.members:
            if child.ready and child.role != "template":
                self.retire(child)
            elif child.staying:  # it holds nothing, and an import may take forever
                child.kill()

    def abandon(self) -> None:
        """Kills the workers; the requests they hold belong to others."""
        for child in self.members:
            if child.works:
                child.held.clear()
                child.kill()

    def check(self) -> None:
        """Replaces workers that hang or grew too large, and kills workers that end too late."""
        self._shortage.watch()
        now = time.monotonic()
        limit = self._settings.max_memory << 20
        for child in self.members:
            if child.retiring_since is not None:
                if self.hurried or now - child.retiring_since > self._settings.grace + WRITE_TIME:
                    child.kill()
            elif child.role in ("template", CHECKER):
                continue  # CodeReload handles it
            elif now - child.last_beat > self._settings.deadline:
                log.warning("%s %d hangs and is killed", child.role, child.pid)
                child.overdue = True
                child.signal(signal.SIGKILL)
                child.last_beat = now
            elif (
                child.works
                and child.staying
                and (child.stuck or child.rss > limit or now - child.born > self._settings.max_age)
            ):
                rss, age = child.rss >> 20, now - child.born
                why = ", with a parser that does not end" if child.stuck else ""
                log.info("worker %d%s, %d MiB, %.0f s old, is replaced", child.pid, why, rss, age)
                self.retire(child)

    def dead(self) -> Iterator[tuple[Child, int | None]]:
        """Yields children that have ended since the last call, with their exit codes (None where
        the system does not report them). Their last messages can still be received."""
        lost, self._lost = self._lost, []
        yield from ((child, None) for child in lost if child in self.members)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            # Other processes were left behind by the spiders.
            for child in [child for child in self.members if child.pid == pid]:
                yield child, os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        """Removes the files of the browser."""
        if self._browser is not None:
            self._browser.close()

    def remove(self, child: Child, code: int | None) -> None:
        """Removes an ended process."""
        self.members.remove(child)
        self._selector.unregister(child.channel)
        if code != 0 and child.staying:
            how = "its channel is closed" if code is None else describe_exit(code)
            log.warning("%s %d died (%s)", child.role, child.pid, how)
            self._health.note_death(time.monotonic(), child.role)
        if not child.ready and child.staying and not child.early:
            self.failed_boot()


class PoolHealth:
    """The health of one pool. ``now`` is time.monotonic()."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._deaths: deque[tuple[float, str]] = deque(maxlen=1000)
        self._full = 0.0  # when all workers were last there; 0 before any was needed
        self.staffed = False  # whether there is code for workers

    def note_death(self, now: float, role: str = "worker") -> None:
        """Records the death of a process that was meant to stay."""
        self._deaths.append((now, role))

    def snapshot(self, members: Iterable[Child], now: float) -> NodeHealth:
        members = [*members]
        while self._deaths and now - self._deaths[0][0] > DEATHS_WITHIN:
            self._deaths.popleft()
        able = sum(
            one.ready and one.staying and not one.early for one in members if one.role == "worker"
        )
        missing = max(0, self._settings.workers - able) if self.staffed else 0
        if not missing or not self._full:
            self._full = now
        return NodeHealth(
            lease=self._settings.lease,
            beat=self._settings.beat,
            missing=missing if now - self._full > LACKING_SECONDS else 0,
            deaths=sum(role in WORKERS for _, role in self._deaths),
            waits=next((one.waits[:MAX_CHARS] for one in members if one.waits), ""),
            disk=disk_used(self._settings.var_dir),
            restarts=sum(role == "steward" for _, role in self._deaths),
            failures=sum(one.failures for one in members),
        )


def disk_used(directory: Path) -> int:
    """Percent used of the disk that the directory is on; 0 if that is unknown."""
    try:
        return round(psutil.disk_usage(str(directory)).percent)
    except OSError:
        return 0
