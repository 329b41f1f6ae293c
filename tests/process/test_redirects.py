"""Chains of redirects over hosts with a delay, on two nodes, one of them killed."""

from __future__ import annotations

import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import psutil
import pytest

from crawlservice.models import Page
from tests.conftest import Running
from tests.process.conftest import Look, Submit, early, wait_for

pytestmark = [
    pytest.mark.process,
    pytest.mark.parametrize("database", ["sqlite"], indirect=True),
]
CHAINS, HOPS, HOSTS = 18, 4, 12
STATUSES = (301, 302, 303, 307, 308)
DELAY = 1.0  # seconds, of the spider


class ManyHosts:
    """``/chain/<c>/<n>`` on the host of each step, which redirects to the next one. ``log`` has
    (seconds, host, path) of all requests."""

    def __init__(self) -> None:
        self.log: list[tuple[float, str, str]] = []
        web = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                web.log.append((time.monotonic(), self.headers["Host"], self.path))
                status, location, body = web.answer(self.path)
                self.send_response(status)
                if location:
                    self.send_header("Location", location)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

        self._servers = [Server((f"127.0.1.{n + 1}", 0), Handler) for n in range(HOSTS)]
        self.hosts = ["{}:{}".format(*server.server_address[:2]) for server in self._servers]
        for server in self._servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()

    def url(self, chain: int, step: int) -> str:
        """Every third chain stays at each host for two steps."""
        stride = step // 2 if chain % 3 == 0 else step * (1 + chain % 5)
        return f"http://{self.hosts[(7 * chain + stride) % HOSTS]}/chain/{chain}/{step}"

    def answer(self, path: str) -> tuple[int, str, bytes]:
        """Status, Location, body."""
        if path == "/":
            links = (f'<a href="{self.url(chain, 0)}">on</a>' for chain in range(CHAINS))
            return 200, "", "".join(links).encode()
        chain, step = map(int, path.split("/")[2:])
        if step == HOPS:
            return 200, "", b"end"
        return self.status(chain, step), self.url(chain, step + 1), b"moved"

    def status(self, chain: int, step: int) -> int:
        return STATUSES[(chain + step) % len(STATUSES)]

    def close(self) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()


@pytest.fixture
def hosts() -> Iterator[ManyHosts]:
    hosts = ManyHosts()
    yield hosts
    hosts.close()


def test_no_hop_is_too_early_and_none_is_lost(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    submit: Submit,
    look: Look,
    hosts: ManyHosts,
) -> None:
    def start(name: str) -> Running:
        return start_manage("runcrawler", "--node", name, "--workers", 2, "--concurrency", 8)

    nodes = [start("one"), start("two")]
    pk = submit("hopping", url=f"http://{hosts.hosts[0]}/")
    wait_for(lambda: len(hosts.log) > CHAINS)
    psutil.Process(nodes[1].process.pid).children()[-1].kill()
    wait_for(lambda: len(hosts.log) > 2 * CHAINS)
    nodes[0].stop(signal.SIGKILL)
    start("three")
    task = look.wait(pk)

    assert (task.state, task.outcome, task.nf, task.ne) == ("finished", "finished", CHAINS + 2, 0)
    chains = {
        hosts.url(n, 0): [hosts.url(n, step) for step in range(HOPS + 1)] for n in range(CHAINS)
    }
    ends = [item for item in look.items(pk) if "asked" in item]
    assert {item["asked"]: item["passed"] for item in ends} == chains
    assert (len(ends), {item["text"] for item in ends}) == (CHAINS, {"end"})
    rows = dict(Page.objects.filter(task_id=pk).values_list("url", "redirects"))
    for number, (first, urls) in enumerate(chains.items()):
        statuses = [hosts.status(number, step) for step in range(HOPS)]
        assert rows[first] == [list(hop) for hop in zip(statuses, urls[1:], strict=True)]

    times = defaultdict(list)
    for at, host, _ in hosts.log:
        times[host].append(at)
    for host, visits in times.items():
        assert early(visits, DELAY) == [], host
    assert len(hosts.log) >= 1 + CHAINS * (HOPS + 1)
