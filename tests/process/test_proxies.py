"""A pool of real proxies, some of which are dead or banned, used by two nodes: judged from the log
of the origin server."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from benchmarks.lab.proxies import ProxyServer, running
from crawlservice.models import Proxy
from tests.conftest import Running
from tests.process.conftest import Look, Submit, on, wait_for
from tests.process.spiders.proxied import DELAY

pytestmark = [pytest.mark.process, on("sqlite")]
HOSTS, EACH = 5, 40
LATE = 0.9  # seconds by which a request may arrive late on a busy machine
SECRET = "sesame-open"


@dataclass
class Origin:
    """``banned``: (host, source) pairs that get a 403."""

    port: int = 0
    arrivals: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    refused: list[tuple[str, str, float]] = field(default_factory=list)
    banned: set[tuple[str, str]] = field(default_factory=set)


@pytest.fixture
def origin() -> Iterator[Origin]:
    found, lock = Origin(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            host = self.headers["Host"].partition(".")[0]
            source = self.client_address[0]
            banned = (host, source) in found.banned
            with lock:
                found.arrivals[host, source].append(time.monotonic())
                if banned:
                    found.refused.append((host, source, time.monotonic()))
            body = source.encode()
            self.send_response(403 if banned else 200)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 256  # or connections would take a second

    server = Server(("127.0.0.1", 0), Handler)
    found.port = server.server_port
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield found
    server.shutdown()
    server.server_close()


@pytest.fixture
def proxies() -> Iterator[list[ProxyServer]]:
    """Ten, of which the last three can die: they take requests and close the connection."""
    found = [
        ProxyServer(
            "socks5" if number in (3, 6) else "http",
            f"user{number}:{SECRET}",
            source=f"127.0.1.{number}",
        )
        for number in range(1, 11)
    ]
    with running(*found):
        yield found


def test_a_pool_over_two_nodes(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    submit: Submit,
    look: Look,
    origin: Origin,
    proxies: list[ProxyServer],
    tmp_path: Path,
) -> None:
    odd_env["CRAWLFRAME_ALLOW_PRIVATE"] = "127.0.0.0/8 ::1/128"
    odd_env["CRAWLFRAME_PROXY_ECHO"] = f"http://echo.localhost:{origin.port}/"
    banned = ("h0", "127.0.1.1")
    origin.banned.add(banned)
    listed = tmp_path / "proxies.txt"
    listed.write_text("# bought\n" + "\n".join(proxy.line for proxy in proxies))
    assert start_manage("proxies", "import", listed, "--tag", "eu").process.wait(60) == 0
    nodes = [start_manage("runcrawler", "--node", f"node{n}", "--workers", 1) for n in range(3)]
    wait_for(lambda: len(look.frontier.leases.nodes()) == 3)
    wait_for(lambda: Proxy.objects.filter(state=Proxy.State.WORKING).count() == len(proxies))
    for proxy in proxies[7:]:
        proxy.dead = True
    pk = submit("proxied", port=origin.port, hosts=HOSTS, each=EACH)
    wait_for(lambda: look.counts(pk).nf > HOSTS * EACH / 4)
    nodes.pop().process.kill()
    task = look.wait(pk)
    assert (task.nf, task.ne) == (HOSTS * EACH + 1, 0)
    for node in nodes:
        assert node.stop() == 0

    for pair, times in origin.arrivals.items():
        if pair[0] == "echo":
            continue
        times.sort()  # of several in a row: a busy machine delays each of them by less than LATE
        for first, earlier in enumerate(times):
            for more, later in enumerate(times[first + 1 :], 1):
                assert later - earlier >= more * DELAY - LATE, pair
    sources = {source for host, source in origin.arrivals if host != "echo"}
    assert sources == {proxy.source for proxy in proxies[:7]}
    # Blocked at one host only, and not asked there again by any node.
    assert [refused[:2] for refused in origin.refused] == [banned]
    assert len(origin.arrivals["h1", banned[1]]) > 1
    for proxy in proxies[7:]:
        assert 1 <= proxy.uses["dead"] <= 3
    failed = Proxy.objects.filter(state=Proxy.State.FAILED)
    assert {row.url for row in failed} == {proxy.url for proxy in proxies[7:]}
    for log in tmp_path.glob("manage*.log"):
        text = log.read_text()
        assert SECRET not in text
        assert "user1" not in text
    rows = str([*Proxy.objects.values()]) + str(look.items(pk))
    assert SECRET not in rows
    assert SECRET not in str(look.frontier.store.redis.hgetall("cf:{0}:pool"))
