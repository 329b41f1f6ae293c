"""The gunicorn worker class that serves the web: gunicorn manages the processes, waitress answers
in them.

One thread of waitress reads and writes all sockets; a request occupies one of the other threads
from when it has arrived completely until its answer is buffered. So slow clients hold no thread
(gunicorn's own threaded worker gives one to each request line that has begun). Connections that are
too slow for too long are closed."""

from __future__ import annotations

import logging
import os
import resource
import time
from collections.abc import Callable, Iterable
from typing import Any

from django.conf import settings
from gunicorn.workers.base import Worker
from waitress import wasyncore
from waitress.channel import HTTPChannel
from waitress.server import BaseWSGIServer, create_server
from waitress.task import ThreadedTaskDispatcher

MAX_HEADERS = 32 * 1024  # bytes of the request line and all headers
# Bytes of a body. More than settings.DATA_UPLOAD_MAX_MEMORY_SIZE, whose error the API reports in
# words.
MAX_BODY = 2 << 20
LEAST_TAKEN = 64 * 1024  # bytes of a waiting answer that a client must take in each deadline
FIRST = "the first request"
TICK = 1.0  # seconds between two checks of the deadlines
GRACE = 1.0  # seconds for requests on their way to a worker that is stopping
OTHER_FILES = 200  # open files of a process that are not connections of clients


class Deadline:
    """When a connection has been slow for too long. ``seconds``: for a request to arrive
    completely, counted from the connection or its first byte, and for LEAST_TAKEN bytes of an
    answer to be taken."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._what: object = None  # subject of the wait
        self._since = 0.0
        self._sent = 0

    def is_over(self, what: object, sent: int, now: float) -> bool:
        """Whether the deadline has passed. ``what``: the request that arrives, or the channel while
        its answer is sent; None for neither. ``sent``: bytes of all answers so far."""
        if what is not self._what or sent - self._sent >= LEAST_TAKEN:
            self._what, self._sent, self._since = what, sent, now
        return what is not None and now - self._since > self._seconds


class Channel(HTTPChannel):
    """One connection."""

    def __init__(self, server: Any, sock: Any, addr: Any, adj: Any, map: Any = None) -> None:
        super().__init__(server, sock, addr, adj, map=map)
        self.sent = 0
        self.deadline = Deadline(server.deadline)

    def send(self, data: bytes, do_close: bool = True) -> int:
        sent: int = super().send(data, do_close=do_close)
        self.sent += sent
        return sent

    def is_busy(self) -> bool:
        """Whether a request is being answered, or an answer is not sent completely."""
        return bool(self.requests or self.total_outbufs_len)

    def check(self, now: float) -> None:
        """Closes the connection if it is too slow."""
        if self.deadline.is_over(self._waits_for(), self.sent, now):
            self.handle_close()  # will_close waits until the socket can be written to

    def _waits_for(self) -> object:
        if self.total_outbufs_len:
            return self
        if self.requests:
            return None
        return self.request if self.sent else FIRST


class WebWorker(Worker):
    """Uses these settings of gunicorn: threads, worker_connections, keepalive, backlog,
    graceful_timeout, max_requests. TLS is for a proxy in front."""

    _next_check = 0.0

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:
        if cfg.is_ssl:
            raise SystemExit("error: certfile and keyfile: a proxy in front must speak TLS")

    def run(self) -> None:
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # it reports each burst
        self.map: dict[int, Any] = {}
        self.dispatcher = ThreadedTaskDispatcher()
        self.dispatcher.set_thread_count(self.cfg.threads)
        self.servers = [self._server(listener.sock) for listener in self.sockets]
        while self.alive and self.ppid == os.getppid():
            self._tick()
        self._drain()

    def _tick(self) -> None:
        self.notify()
        wasyncore.loop(timeout=TICK, use_poll=True, map=self.map, count=1)
        now = time.monotonic()
        if now >= self._next_check:
            self._next_check = now + TICK
            for channel in self._channels():
                channel.check(now)

    def _drain(self) -> None:
        """Accepts no more connections, and ends when all requests are answered or the time is
        over."""
        for server in self.servers:
            server.accepting = False
            server.del_channel(self.map)
            server.socket.close()
        began = time.monotonic()
        while (waited := time.monotonic() - began) < self.cfg.graceful_timeout:
            if waited > GRACE and not any(channel.is_busy() for channel in self._channels()):
                break
            self._tick()
        self.dispatcher.set_thread_count(0)

    def _channels(self) -> list[Channel]:
        return [channel for server in self.servers for channel in server.active_channels.values()]

    def _server(self, sock: Any) -> BaseWSGIServer:
        server: Any = create_server(
            self._counted(self.wsgi),
            map=self.map,
            _dispatcher=self.dispatcher,
            _start=False,
            sockets=[sock],
            backlog=self.cfg.backlog,
            connection_limit=min(self.cfg.worker_connections, most_connections()),
            channel_timeout=self.cfg.keepalive,
            cleanup_interval=TICK,
            max_request_header_size=MAX_HEADERS,
            max_request_body_size=MAX_BODY,
            asyncore_use_poll=True,
            log_socket_errors=False,
            clear_untrusted_proxy_headers=False,  # see proxies.py
            ident=None,
        )
        server.channel_class, server.deadline = Channel, settings.WEB_DEADLINE
        server.accept_connections()
        return server

    def _counted(self, application: Any) -> Callable[[dict[str, Any], Any], Iterable[bytes]]:
        def counted(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            self.nr += 1
            if self.nr >= self.max_requests:
                self.alive = False  # gunicorn starts another worker
            answer: Iterable[bytes] = application(environ, start_response)
            return answer

        return counted


def most_connections() -> int:
    """The most connections that this process may have at a time, after raising its limit of
    files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (ValueError, OSError):  # macOS does not accept unlimited
            pass
    return max(soft - OTHER_FILES, 100) if soft != resource.RLIM_INFINITY else 1 << 20
