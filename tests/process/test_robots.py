"""Whole nodes and robots.txt, judged from the log of the servers: each file is read once, nothing
that it forbids is fetched, and nothing before it was read."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import psutil
import pytest

from crawlservice.ledger.audit import audit
from crawlservice.models import Page, RobotsFile, Task
from tests.conftest import Running
from tests.process.conftest import Look, Submit, early, wait_for
from tests.servers import free_port

pytestmark = [
    pytest.mark.process,
    pytest.mark.parametrize("database", ["postgres"], indirect=True),
]

HOSTS = 24
PAGES = 4  # of each kind and host
DELAY = 0.5  # seconds between two requests that some hosts ask for
DELAYED = range(1, HOSTS, 8)  # hosts that do


class Hit(NamedTuple):
    host: str
    path: str
    status: int
    at: float  # seconds, by a steady clock


class Servers:
    """HTTP servers on addresses of 127/8, in a thread: each address is a host. ``log``: the
    requests, in order; ``down``: hosts whose robots.txt answers 503; ``moved``: files that
    redirect, with their targets."""

    def __init__(self, hosts: int) -> None:
        self.port = free_port()
        self.hosts = [f"127.1.{n}.1:{self.port}" for n in range(hosts)]
        self.log: list[Hit] = []
        self.down: set[str] = set()
        self.moved: dict[str, str] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)

    async def _start(self) -> None:
        self._servers = [
            await asyncio.start_server(self._serve, host.partition(":")[0], self.port)
            for host in self.hosts
        ]

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while head := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1"):
                at = time.monotonic()
                path = head.split(" ", 2)[1]
                host = head.lower().partition("\r\nhost: ")[2].partition("\r\n")[0]
                await asyncio.sleep(0.01)
                status, body = self._answer(host, path)
                self.log.append(Hit(host, path, status, at))
                where = f"Location: {body}\r\n" if status == 301 else ""
                kind = "text/plain" if path == "/robots.txt" else "text/html"
                writer.write(
                    f"HTTP/1.1 {status} x\r\n{where}Content-Type: {kind}\r\n"
                    f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
                )
                await writer.drain()
        writer.close()

    def _answer(self, host: str, path: str) -> tuple[int, str]:
        if path != "/robots.txt" and not path.startswith("/moved"):
            return 200, "<p>hello"
        if f"{host}{path}" in self.moved:
            return 301, self.moved[f"{host}{path}"]
        if host in self.down:
            return 503, "later"
        delay = f"Crawl-delay: {DELAY}\n" if self.hosts.index(host) in DELAYED else ""
        return 200, f"User-agent: *\nDisallow: /private/\n{delay}"

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


@pytest.fixture
def servers() -> Iterator[Servers]:
    servers = Servers(HOSTS)
    yield servers
    servers.close()


@pytest.fixture
def nodes(
    odd_env: dict[str, str], start_manage: Callable[..., Running]
) -> Callable[[], list[Running]]:
    return lambda: [
        start_manage("runcrawler", "--node", f"node{n}", "--workers", 1, "--concurrency", 16)
        for n in range(2)
    ]


def kill(node: Running) -> None:
    """Kills it with all its children, at once."""
    family = psutil.Process(node.process.pid).children(recursive=True)
    node.process.send_signal(signal.SIGKILL)
    for one in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    node.process.wait()
    psutil.wait_procs(family, timeout=10)


def check(servers: Servers, task: Task, look: Look) -> None:
    """Checks the invariants at the end."""
    log = servers.log
    assert not [hit for hit in log if hit.path.startswith("/private")]
    read = {hit.host: hit.at for hit in log if hit.path == "/robots.txt" and hit.status == 200}
    assert set(read) == set(servers.hosts)
    assert not [hit for hit in log if hit.path != "/robots.txt" and hit.at < read[hit.host]]
    excluded = HOSTS * PAGES
    assert (task.state, task.excluded, task.ne) == ("finished", excluded, excluded)
    assert task.nf == excluded + 1
    assert task.outcome == "finished"
    reasons = Page.objects.filter(task=task, state="error").values_list("reason", flat=True)
    assert set(reasons) == {"robots"}
    assert look.frontier.audit() == audit(task) == []


def pace(servers: Servers, host: str) -> float:
    """Mean seconds between two requests of a host, its robots.txt included. The frontier spaces
    claims; a worker that gets no CPU for a while may send two of them together."""
    times = [hit.at for hit in servers.log if hit.host == host]
    return (max(times) - min(times)) / (len(times) - 1)


def test_a_file_that_redirects_to_another_host_keeps_the_delay_of_that_one(
    servers: Servers, nodes: Callable[[], list[Running]], submit: Submit, look: Look
) -> None:
    """The second one of two hops leads there, for one of them."""
    busy, *others = hosts = servers.hosts[2:6]  # without a delay of their own
    for n, host in enumerate(others):
        servers.moved[f"{host}/robots.txt"] = f"http://{busy}/moved/{n}"
    servers.moved[f"{others[0]}/robots.txt"] = f"http://{others[1]}/moved/first"
    servers.moved[f"{others[1]}/moved/first"] = f"http://{busy}/moved/0"
    running = nodes()
    wait_for(lambda: len(look.frontier.leases.nodes()) == 2)
    pk = submit("patient", hosts=json.dumps(hosts), pages=2)
    task = look.wait(pk)
    pages = 2 * len(hosts)
    assert (task.state, task.outcome, task.excluded) == ("finished", "finished", pages)
    assert (task.nf, task.ne) == (pages + 1, pages)
    paths = Counter(hit.path for hit in servers.log if hit.host == busy)
    files = ("/robots.txt", "/moved/0", "/moved/1", "/moved/2", "/open/0", "/open/1")
    assert paths == dict.fromkeys(files, 1)
    for host in hosts:
        assert early((hit.at for hit in servers.log if hit.host == host), 1.0) == []
    assert look.frontier.audit() == audit(task) == []
    assert {node.stop() for node in running} == {0}


def test_each_file_is_read_once_by_the_cluster_and_again_when_it_was_unreachable(
    servers: Servers,
    nodes: Callable[[], list[Running]],
    submit: Submit,
    look: Look,
) -> None:
    """Requests wait while it is unreachable, also for a node that died, and continue afterwards."""
    down = servers.hosts[::2]
    servers.down.update(down)
    running = nodes()
    wait_for(lambda: len(look.frontier.leases.nodes()) == 2)
    pk = submit("polite", hosts=json.dumps(servers.hosts), pages=PAGES)
    fine = (HOSTS - len(down)) * PAGES

    def fine_ended() -> bool:
        counts = look.counts(pk)
        return (counts.excluded, counts.nf) == (fine, fine + 1)  # 1: start

    # It stays so: the task, whose counts would be gone with its end, waits for the hosts that are
    # down.
    wait_for(fine_ended)
    wait_for(lambda: RobotsFile.objects.filter(status="unreachable").count() == len(down))
    for n in DELAYED:  # without the hosts that are down
        assert pace(servers, servers.hosts[n]) > 0.7 * DELAY
    kill(running.pop())
    wait_for(lambda: look.counts(pk).in_progress == 0)
    asked = Counter(hit.host for hit in servers.log if hit.path == "/robots.txt")
    assert set(asked.values()) == {1}
    states = look.frontier.hosts.states(down)
    assert all(state.robots_wait > 0 and state.why == "robots" for state in states.values())
    assert all(state.queued == 2 * PAGES for state in states.values())
    assert look.counts(pk).errors == 0
    servers.down.clear()
    # In place of the clock: the hour of the next try has come.
    RobotsFile.objects.filter(status="unreachable").update(next_try=None)
    for host in down:
        look.frontier.hosts.robots(host)
    task = look.wait(pk)
    check(servers, task, look)
    asked = Counter(hit.host for hit in servers.log if hit.path == "/robots.txt")
    assert asked == {host: 2 if host in down else 1 for host in servers.hosts}
    assert task.errors == 0
    assert RobotsFile.objects.filter(status="rules").count() == HOSTS
    assert not RobotsFile.objects.exclude(status="rules").exists()
    assert running[0].stop() == 0
