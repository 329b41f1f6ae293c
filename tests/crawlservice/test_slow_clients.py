"""Slow clients without a login: they hold no thread of the web, and are closed by the deadline."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest
import requests

from crawlservice.web.worker import LEAST_TAKEN, Deadline
from tests.servers import served

LARGE = "/static/unfold/fonts/material-symbols/Material-Symbols-Outlined.woff2"
HEAD = b"POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
KINDS = {
    "half a request line": b"GET /heal",
    "half a head": b"GET /healthz HTTP/1.1\r\nHost: loc",
    "half a body": HEAD + b'Content-Length: 9000\r\n\r\n{"spider": ',
    "half a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n400\r\n{",
    "takes no answer": f"GET {LARGE} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 40,
}
EACH = 40  # with five kinds, twelve times as many as threads
DEADLINE = 4  # seconds
# A busy machine may be slow; a web whose threads are all held answers nothing at all for as long.
SLACK = 15  # seconds


def test_what_arrives_must_have_arrived_by_the_deadline() -> None:
    deadline, request, other = Deadline(20), object(), object()
    assert not deadline.is_over(request, 0, 100)
    assert not deadline.is_over(request, 0, 120)
    assert deadline.is_over(request, 0, 121)
    assert not deadline.is_over(other, 0, 121)  # the next request has a time of its own
    assert not deadline.is_over(None, 0, 200)
    assert not deadline.is_over(request, 0, 1000)


def test_an_answer_must_be_taken_at_a_least_speed() -> None:
    deadline, answer = Deadline(20), object()
    assert not deadline.is_over(answer, 0, 100)
    assert not deadline.is_over(answer, LEAST_TAKEN, 119)
    assert not deadline.is_over(answer, LEAST_TAKEN + 1, 138)
    assert deadline.is_over(answer, 2 * LEAST_TAKEN - 1, 140)


@pytest.fixture
def crowd() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connect(url: str) -> socket.socket:
    address = urlsplit(url)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect((address.hostname, address.port))
    client.setblocking(False)
    return client


def closed(clients: list[socket.socket]) -> int:
    """The number of them that the server has closed. Its answers are not read."""
    poll = selectors.PollSelector()
    for client in clients:
        poll.register(client, selectors.EVENT_READ)
    found = 0
    for key, _ in poll.select(0):
        try:
            found += key.fileobj.recv(1, socket.MSG_PEEK) == b""  # type: ignore[union-attr]
        except OSError:
            found += 1
    return found


def ends(clients: list[socket.socket], taken: bool) -> int:
    if not taken:
        return closed(clients)
    gone = 0
    for client in clients:
        try:
            client.send(b"G")
        except OSError:
            gone += 1
    return gone


@pytest.mark.process
def test_two_hundred_slow_clients_hold_up_nobody(
    database: str, manage_env, crowd: ExitStack
) -> None:
    env = {**manage_env, "CRAWLFRAME_WEB_DEADLINE": str(DEADLINE), "CRAWLFRAME_WEB_THREADS": "8"}
    with served(env) as (url, process):
        requests.get(f"{url}healthz", timeout=60)
        assert requests.get(url + LARGE[1:], timeout=60).status_code == 200
        clients: dict[str, list[socket.socket]] = {kind: [] for kind in KINDS}
        for kind, sent in KINDS.items():
            for _ in range(EACH):
                client = crowd.enter_context(connect(url))
                client.send(sent)
                clients[kind].append(client)
        slowest = 0.0
        until = time.monotonic() + DEADLINE / 2
        while time.monotonic() < until:
            asked = time.monotonic()
            assert requests.get(f"{url}healthz", timeout=SLACK).status_code == 200
            slowest = max(slowest, time.monotonic() - asked)
        print(f"the slowest answer beside {EACH * len(KINDS)} slow clients: {slowest:.3f} s")
        for kind, some in clients.items():
            taken = kind == "takes no answer"
            deadline = time.monotonic() + 2 * DEADLINE + SLACK
            while (gone := ends(some, taken)) < EACH:
                assert time.monotonic() < deadline, f"{kind}: {gone} of {EACH} are closed"
                time.sleep(0.2)
        assert requests.get(f"{url}healthz", timeout=SLACK).status_code == 200
        process.terminate()
        assert process.wait(60) == 0
