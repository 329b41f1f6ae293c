"""Server: the demo site over HTTP, with the latency and errors asked for, and its counters."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import random
import signal
import socket
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import uvloop

from examples.demo_site.draw import Draw
from examples.demo_site.errors import DemoSiteError
from examples.demo_site.pages import HTML, JSON, Pages, SitePage
from examples.demo_site.site import Site

# Of a method and a target, path and query: the status, the fields of the head, and the body.
Answer = tuple[int, dict[str, str], bytes]
Application = Callable[[str, str], Awaitable[Answer]]

DEFAULT_PORT = 8100  # next to 8000, on which `up` serves
BACKLOG = 1024  # connections that wait to be accepted
STATS = "/_stats"
ROBOTS = "/robots.txt"
RULES = SitePage(200, "text/plain", b"User-agent: *\nDisallow: /_stats\n")
SERVER_ERROR = SitePage(500, HTML, b"<!DOCTYPE html><title>500</title><h1>Please try again</h1>\n")


class DemoApp:
    """The application. ``GET /_stats`` returns how often each path was requested, as JSON, and
    ``DELETE /_stats`` resets the counters, and with them the errors. ``/robots.txt`` has none.

    ``latency`` is in milliseconds; ``jitter`` is the share that it varies up and down.
    ``error_rate`` is the share of URLs whose first request answers 500. Raises ValueError."""

    def __init__(
        self, pages: Pages, latency: float = 0, jitter: float = 0.25, error_rate: float = 0
    ) -> None:
        if latency < 0:
            raise ValueError(f"latency is {latency}; give 0 or more (milliseconds)")
        for name, share in (("jitter", jitter), ("error rate", error_rate)):
            if not 0 <= share <= 1:
                raise ValueError(f"{name} is {share}; give a share from 0 to 1")
        self._pages = pages
        self._latency, self._jitter, self._error_rate = latency / 1000, jitter, error_rate
        self._reset()

    def _reset(self) -> None:
        self._asked: Counter[str] = Counter()
        self._statuses: Counter[int] = Counter()
        self._in_flight = self._in_flight_max = 0

    async def __call__(self, method: str, target: str) -> Answer:
        path = target.partition("?")[0]
        if path == STATS:
            page = self._stats(method)
        elif path == ROBOTS:
            page = RULES
        else:
            page = await self._visit(target)
        return page.status, {"Content-Type": page.content_type}, page.body

    async def _visit(self, target: str) -> SitePage:
        self._asked[target] += 1
        first = self._asked[target] == 1
        self._in_flight += 1
        self._in_flight_max = max(self._in_flight_max, self._in_flight)
        try:
            if self._latency:
                spread = random.uniform(-self._jitter, self._jitter)
                await asyncio.sleep(self._latency * (1 + spread))
            page = SERVER_ERROR if first and self.fails(target) else self._pages.answer(target)
        finally:
            self._in_flight -= 1
        self._statuses[page.status] += 1
        return page

    def fails(self, target: str) -> bool:
        """Whether the first request for this path and query answers 500."""
        if not self._error_rate:
            return False
        return Draw(self._pages.site.seed, "error", target).chance(self._error_rate)

    def _stats(self, method: str) -> SitePage:
        if method == "DELETE":
            self._reset()
        stats = {
            "requests": self._asked.total(),
            "in_flight_max": self._in_flight_max,
            "statuses": {str(status): count for status, count in self._statuses.items()},
            "paths": self._asked,
        }
        return SitePage(200, JSON, json.dumps(stats).encode())


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises DemoSiteError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        raise DemoSiteError(_listen_problem(host, port, error)) from None
    return listener


def _listen_problem(host: str, port: int, error: OSError | OverflowError) -> str:
    match getattr(error, "errno", None):
        case errno.EADDRINUSE:
            return f"port {port} on {host} is in use; choose another with --port (0 = any free one)"
        case errno.EACCES:
            return f"port {port} on {host} needs more rights; choose one above 1023 with --port"
        case _:
            return f"cannot listen on {host} port {port}: {error}; check --host and --port"


def _print(line: str) -> None:
    print(line, flush=True)


def serve(
    site: Site,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    *,
    latency: float = 0,
    jitter: float = 0.25,
    error_rate: float = 0,
    announce: Callable[[str], None] = _print,
    stop_with_stdin: bool = False,
) -> None:
    """Serves until SIGINT or SIGTERM; with ``stop_with_stdin`` also until stdin, a pipe, ends, as
    it does when the parent dies. ``announce`` gets the line with the address once pages are served.

    Raises DemoSiteError when it cannot listen, ValueError on a wrong parameter."""
    app = DemoApp(Pages(site), latency, jitter, error_rate)
    listener = listen(host, port)
    url = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"

    def started() -> None:
        loop = asyncio.get_running_loop()
        if stop_with_stdin:
            # Nothing to save: a site whose parent is gone ends at once, requests in flight or not.
            loop.add_reader(sys.stdin.fileno(), os._exit, 0)
        announce(f"demo site on {url} ({site.listings} listings)")

    uvloop.run(answer_until_stopped(app, listener, started))


async def answer_until_stopped(
    app: Application, listener: socket.socket, started: Callable[[], None] = lambda: None
) -> None:
    """Answers until SIGINT or SIGTERM; ``started`` is called once that is so."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await _answer(app, reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass  # the client is gone, or speaks no HTTP
        finally:
            writer.close()

    await asyncio.start_server(connected, sock=listener, backlog=BACKLOG)
    started()
    await stopped.wait()


async def _answer(
    app: Application, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """One request and its answer; the connection stays open. Raises ValueError for other data, and
    IncompleteReadError at the end."""
    head = await reader.readuntil(b"\r\n\r\n")
    method, target, _ = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
    status, fields, body = await app(method, target)
    fields["Content-Length"] = str(len(body))
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    writer.write("\r\n".join([*lines, "\r\n"]).encode("latin-1"))
    if method != "HEAD":
        writer.write(body)
    await writer.drain()
