"""Names that share an address share its limits: over nodes, judged from the log of the servers."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.conftest import Running
from tests.process.conftest import Look, Submit, wait_for
from tests.process.spiders.shared import ADDRESSES, CONCURRENCY, DELAY

pytestmark = [
    pytest.mark.process,
    pytest.mark.parametrize("database", ["sqlite"], indirect=True),
]
LATENCY = 0.02  # seconds
NAMES, EACH = 100, 4


@dataclass
class Log:
    """The log of one address: times of requests, and the most in flight."""

    arrivals: list[float] = field(default_factory=list)
    flying: int = 0
    most: int = 0


@dataclass
class Servers:
    port: int = 0
    logs: dict[str, Log] = field(default_factory=lambda: defaultdict(Log))


@pytest.fixture
def servers() -> Iterator[Servers]:
    found, lock, running = Servers(), threading.Lock(), []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            log = found.logs[self.server.server_address[0]]  # type: ignore[index]
            with lock:
                log.arrivals.append(time.monotonic())
                log.flying += 1
                log.most = max(log.most, log.flying)
            time.sleep(LATENCY)
            with lock:
                log.flying -= 1
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    for address in ADDRESSES:
        server = ThreadingHTTPServer((address, found.port), Handler)
        server.daemon_threads = True
        found.port = server.server_port
        threading.Thread(target=server.serve_forever, daemon=True).start()
        running.append(server)
    yield found
    for server in running:
        server.shutdown()
        server.server_close()


def test_names_on_one_address_share_its_limits(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    submit: Submit,
    look: Look,
    servers: Servers,
    capsys: pytest.CaptureFixture[str],
) -> None:
    odd_env["CRAWLFRAME_RESOLVER"] = "tests.process.spiders.shared:resolve"
    odd_env["CRAWLFRAME_ALLOW_PRIVATE"] = "127.0.0.0/8"
    nodes = [start_manage("runcrawler", "--node", f"node{n}", "--workers", 2) for n in range(2)]
    wait_for(lambda: len(look.frontier.leases.nodes()) == 2)
    pk = submit("shared", port=servers.port, names=NAMES, each=EACH)
    task = look.wait(pk)
    assert (task.nf, task.ne) == (NAMES * EACH + 1, 0)
    for item in look.items(pk):
        number = int(item["url"].removeprefix("http://n").partition(".")[0])
        assert item["address"] == ADDRESSES[number % 4]
    for node in nodes:
        assert node.stop() == 0
    assert {*servers.logs} == {*ADDRESSES}
    for address, log in servers.logs.items():
        assert len(log.arrivals) == NAMES * EACH / 4
        assert log.most <= CONCURRENCY, address
        times = sorted(log.arrivals)
        # A request may arrive late, but no more of them than may be in flight.
        for first, start in enumerate(times):
            for last in range(first + CONCURRENCY + 1, len(times)):
                most = (times[last] - start) / DELAY + 1 + CONCURRENCY
                assert last - first + 1 <= most + 0.01, address
    shares = [
        (len(log.arrivals) - 1) * DELAY / (max(log.arrivals) - min(log.arrivals))
        for log in servers.logs.values()
    ]
    with capsys.disabled():
        print(f" {min(shares):.1%} to {max(shares):.1%} of what the addresses allow")
