"""Worker: a forked process with an event loop, where many requests run, and a commit thread."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import uvloop

from crawlframe.base import faults
from crawlframe.code.registry import Registry
from crawlframe.conf import Settings
from crawlframe.fetch.body.memory import return_large_blocks
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.middlewares import is_cancelled
from crawlframe.frontier.client.records import Claimed, Signal, TaskView
from crawlframe.identity.identity import Identity
from crawlframe.markup import parsers
from crawlframe.node.channel import ChannelClosed
from crawlframe.node.messages import (
    Beat,
    FromChildLine,
    FromWorker,
    KeepOnly,
    Retire,
    Run,
    SlowCallback,
    WorkerReady,
    WorkerReport,
)
from crawlframe.node.services import Services
from crawlframe.node.worker.commit.committer import Committer
from crawlframe.node.worker.commit.participants import participants
from crawlframe.node.worker.commit.stores import Stores
from crawlframe.node.worker.commit.task_log import LogWriter
from crawlframe.node.worker.fetch.permits import StoredPermits
from crawlframe.node.worker.fetch.proxies import ProxySource
from crawlframe.node.worker.fetch.rendering import StoredRenders
from crawlframe.node.worker.fetch.replay import CacheReplay
from crawlframe.node.worker.fetch.stages import FetchSources
from crawlframe.node.worker.pages.kept_pages import KeptPages
from crawlframe.node.worker.pages.near_pages import NearSource
from crawlframe.node.worker.pages.page_source import PageSource
from crawlframe.node.worker.robots.guard import RobotsGuard
from crawlframe.node.worker.robots.site_files import RobotsStore
from crawlframe.node.worker.run_request import RequestRunner, outcome_of
from crawlframe.node.worker.start.start_parts import StartParts
from crawlframe.node.worker.start.start_run import StartRuns
from crawlframe.node.worker.task.open_task import CrawlMaker
from crawlframe.node.worker.task.task_source import StoredTasks
from crawlframe.node.worker.verdict.failures import callback_traceback
from crawlframe.node.worker.verdict.signals import FetchReports
from crawlframe.run.link_filters import Sieve
from crawlframe.run.outcome import Outcome, Verdict

log = logging.getLogger(__name__)

REPORT_EVERY = 0.004  # seconds; reports within that time are sent as one message
BUSY_REPORT_EVERY = 0.01  # seconds; a busy worker usually has enough to do until then
BEAT_EVERY = 1.0  # seconds
COLLECT_AFTER = 10_000  # new containers, of some 40 pages; by default, of three
IDLE_SECONDS = 60.0  # seconds after which a worker closes a spider that has a hook for it
PARSERS_EVERY = 0.2  # seconds
COMMIT_SECONDS = 2.0  # for ended requests when a worker has to exit
BUSY_SHARE = 0.4  # share of one processor from which a worker counts as busy


class Worker:
    """The state of one worker process; all of it except the committer is used by the loop only.
    ``mark`` is called with (slot, rid of the running callback). ``browser``: the socket of the
    node's browser host."""

    def __init__(
        self,
        settings: Settings,
        services: Services,
        registry: Registry,
        version: str,
        generation: int,
        channel: FromChildLine,
        mark: Callable[[int, bytes], None],
        browser: Path | None = None,
    ) -> None:
        self._settings = settings
        self._services = services
        self._registry = registry
        self._version = version  # of the registry's code
        self._generation = generation
        self._channel = channel
        self._mark = mark
        self._browser = browser
        self._sieve = Sieve()
        self._running: dict[asyncio.Task[None], Claimed] = {}
        self._foreign: set[bytes] = set()  # rids of requests that others have taken over
        self._fetched: list[tuple[bytes, int, Signal]] = []  # rid, number of its claim
        self._settled: list[bytes] = []
        self._sent: list[tuple[bytes, int, float]] = []  # rid, number of its claim, time
        self._busy = False
        self._credits = 0  # free slots not reported yet
        self._timer: asyncio.TimerHandle | None = None  # for the next report
        self._end = asyncio.Event()

    async def run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._assemble()
        self._committer.start()
        self._log.listen()
        self._send(WorkerReady(self._settings.concurrency))
        self._loop.add_reader(self._channel.fileno(), self._on_readable)
        started = (
            self._beat(),
            self._robots.watch(),
            self._downloader.sweep(),
            self._renders.watch(),
            self._proxies.watch(),
            self._tasks.watch_identity(),
            self._tasks.watch_recipes(self._runner.crawls.forget),
        )
        chores = [self._loop.create_task(chore) for chore in started]
        parsers_watch = self._loop.create_task(self._watch_parsers())
        await self._end.wait()
        self._starts.leave()
        for chore in chores:
            chore.cancel()
        await self._finish()
        await self._downloader.close()
        parsers_watch.cancel()

    def _assemble(self) -> None:
        """Makes the parts of the worker, without starting them."""
        self._frontier = self._services.frontier()
        ledger = self._ledger = self._services.ledger()
        replay = CacheReplay.of(self._settings)
        self._committer = Committer(
            self._settings,
            self._generation,
            self._frontier,
            ledger,
            self._sieve,
            participants(self._frontier, ledger, self._sieve),
            self._on_settled,
            self._on_fenced,
            self._worth_waiting_for,
            None if replay is None else replay.place,
        )
        identity = Identity(self._settings.signature_agent)
        self._downloader = Downloader(self._settings, identity, browser=self._browser)
        name = f"{self._settings.node}/{os.getpid()}"
        self._log = LogWriter(ledger.activity, self._committer.call, name)
        maker = CrawlMaker(self._registry, self._settings.deadline)
        stores = Stores(self._committer, self._frontier, ledger)
        self._robots = RobotsGuard(self._settings, self._downloader, RobotsStore(stores))
        self._proxies = ProxySource(stores)
        self._renders = StoredRenders(stores)
        ahead = self._settings.start_ahead
        self._starts = StartRuns(StartParts(stores, self._sieve, ahead, replay))
        self._tasks = StoredTasks(stores, maker, identity, read=self._log.lines.learn)
        self._runner = RequestRunner(
            self._settings,
            self._tasks,
            self._version,
            self._downloader,
            self._sieve,
            self._mark,
            on_slow=lambda *slow: self._send(SlowCallback(*slow)),
            reports=FetchReports(self._on_fetched, self._on_sent, self._frontier.may_move),
            sources=FetchSources(
                self._robots,
                replay,
                StoredPermits(stores, self._generation),
                self._proxies,
                PageSource(stores),
                NearSource(stores),
                self._renders,
            ),
            starts=self._starts,
            kept=KeptPages(stores),
        )

    # -- master -> worker -------------------------------------------------------------------------

    def _on_readable(self) -> None:
        try:
            for message in self._channel.receive():
                match message:
                    case Run(requests, tasks):
                        self._start(requests, tasks)
                    case SlowCallback(task, callback, computes):
                        self._runner.callbacks.expect(task, callback, computes)
                    case KeepOnly(rids):
                        self._let_go(rids)
                    case Retire():
                        self._end.set()
        except ChannelClosed:
            os._exit(1)  # the master is dead: its successor replays our requests
        except Exception:
            log.exception("a message from the master cannot be read")
            os._exit(1)  # the master returns our requests to the queue

    def _start(self, requests: list[Claimed], views: dict[int, TaskView]) -> None:
        for claimed in requests:
            task = self._loop.create_task(self._run(claimed, views[claimed.task]))
            self._running[task] = claimed
            task.add_done_callback(self._on_done)

    def _let_go(self, rids: list[bytes]) -> None:
        """Others have taken over all requests except these, whose callbacks held up this worker."""
        for task, claimed in self._running.items():
            if claimed.rid not in rids:
                self._foreign.add(claimed.rid)
                task.cancel()
        self._end.set()

    async def _run(self, claimed: Claimed, view: TaskView) -> None:
        try:
            outcome = await self._runner.run(claimed, view)
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                if claimed.rid in self._foreign:
                    return
                outcome = self._of(claimed).end(Verdict.RELEASE)
            else:  # a defect in the engine must not lose the request
                log.exception("request %s failed inside the engine", claimed.rid.hex())
                outcome = self._of(claimed).end(Verdict.ERROR, "engine", callback_traceback(error))
        self._committer.put(outcome)

    def _of(self, claimed: Claimed) -> Outcome:
        return outcome_of(claimed, self._version)

    # -- worker -> master -------------------------------------------------------------------------

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        self._credits += 1
        self._report_soon()

    def _on_fetched(self, claimed: Claimed, signal: Signal) -> None:
        self._fetched.append((claimed.rid, claimed.claim, signal))
        self._report_soon()

    def _on_sent(self, claimed: Claimed, ago: float) -> None:
        self._sent.append((claimed.rid, claimed.claim, time.monotonic() - ago))
        if self._busy:
            self._report_soon()
        else:  # its host waits for that
            self._loop.call_soon(self._report)

    def _on_settled(self, rids: list[bytes]) -> None:
        self._wake(self._add_settled, rids)

    def _wake(self, act: Callable[..., object], *arguments: Any) -> None:
        """Makes the loop call it, from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed, so it is not needed
            self._loop.call_soon_threadsafe(act, *arguments)

    def _add_settled(self, rids: list[bytes]) -> None:
        self._settled += rids
        self._report_soon()

    def _report_soon(self) -> None:
        if 2 * self._credits >= self._settings.concurrency:
            self._report()
        elif self._timer is None:
            pause = BUSY_REPORT_EVERY if self._busy else REPORT_EVERY
            self._timer = self._loop.call_later(pause, self._report)

    def _report(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        fetched, self._fetched = self._fetched, []
        settled, self._settled = self._settled, []
        sent, self._sent = self._sent, []
        credits = 0
        if self._committer.held < self._settings.backlog:
            credits, self._credits = self._credits, 0
        if fetched or settled or credits or sent:
            self._send(WorkerReport(credits, fetched, settled, sent))

    async def _beat(self) -> None:
        process = psutil.Process()
        then = used = 0.0
        while True:
            now, total = time.monotonic(), time.process_time()
            self._busy = total - used > BUSY_SHARE * (now - then)
            then, used = now, total
            if rid := self._runner.callbacks.overdue():
                log.error("the callback of request %s does not end; the worker exits", rid.hex())
                os._exit(1)  # the master returns our requests to the queue
            memory = process.memory_info().rss
            self._send(Beat(memory, self._committer.waits, stuck=parsers.stuck()))
            self._committer.confirm()
            self._log.tick()
            busy = {one.task for one in self._running.values()}
            self._runner.crawls.let_go(busy, IDLE_SECONDS)
            await asyncio.sleep(BEAT_EVERY)

    async def _watch_parsers(self) -> None:
        """Exits if the parser of a refused page takes too much memory: pages that are made for it
        take some 0.7 GB a second, and other requests of the worker may take longer to end."""
        refused = asyncio.Event()
        parsers.on_refusal = lambda: self._wake(refused.set)
        while True:
            await refused.wait()
            if not parsers.stuck():
                refused.clear()
            elif psutil.Process().memory_info().rss > self._settings.max_memory << 20:
                log.error("a parser takes too much memory; the worker exits")
                end = self._loop.time() + COMMIT_SECONDS
                while self._committer.held and self._loop.time() < end:
                    await asyncio.sleep(0.05)  # or its page counts as one that kills
                os._exit(1)  # the master returns our requests to the queue
            else:
                await asyncio.sleep(PARSERS_EVERY)

    def _worth_waiting_for(self) -> int:
        """Outcomes to wait for. Large batches are cheaper, which matters when the worker is busy.
        But no more outcomes may wait than there are requests that could still join them."""
        return len(self._running) if self._busy else 0

    def _send(self, message: FromWorker) -> None:
        try:
            self._channel.send(message)
        except ChannelClosed:
            os._exit(1)
        if self._channel.pending:
            self._loop.add_writer(self._channel.fileno(), self._on_writable)

    def _on_writable(self) -> None:
        self._channel.flush()
        if not self._channel.pending:
            self._loop.remove_writer(self._channel.fileno())

    # -- end --------------------------------------------------------------------------------------

    async def _finish(self) -> None:
        """Completes running requests within the grace time, returns the rest, writes everything."""
        faults.at("drain.begin")
        if self._running:
            await asyncio.wait(self._running, timeout=self._settings.grace)
        for task in [*self._running]:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=5)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._runner.crawls.leave(), self._settings.grace)
        self._log.flush()
        self._committer.close()
        await asyncio.to_thread(self._committer.join)
        await asyncio.sleep(0)  # lets the last settled rids arrive
        faults.at("drain.end")
        self._credits = 0
        self._report()

    def _on_fenced(self) -> None:
        """Our generation was declared dead, so others run our requests: exits without a message."""
        log.warning("this generation was declared dead; worker %d ends", os.getpid())
        os._exit(1)


def run_worker(worker: Worker) -> None:
    """Runs a worker to its end, in a process of its own."""
    return_large_blocks()
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])
    uvloop.run(worker.run())
