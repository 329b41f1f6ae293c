"""Handle: one easy handle of libcurl, which makes one transfer after another."""

from __future__ import annotations

import asyncio
import math
import os
import re
import select
import socket
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from io import BytesIO
from typing import Any

import pycurl
from multidict import CIMultiDict

from crawlframe.base.urls import target_of
from crawlframe.errors import FetchError
from crawlframe.fetch.body.memory import Account, waker
from crawlframe.fetch.body.saving import Saving
from crawlframe.fetch.journey.context import FetchLimits, SendTime
from crawlframe.fetch.journey.journey import Answer, Journey, header_bytes, header_of
from crawlframe.fetch.names.address_guard import AddressGuard
from crawlframe.fetch.names.resolver import PIN_SECONDS, Pin
from crawlframe.identity.tls import Tls, usual_ca
from crawlframe.proxies.proxy import ChosenProxy

BUFFER = 1 << 17  # bytes libcurl reads at a time
_BLANK = (b"\r\n", b"\n")
_LOWER_ESCAPE = re.compile("%(?:[a-f]|[0-9A-F][a-f])")  # which libcurl would write in upper case
SUPPRESS_CONNECT_HEADERS = 265  # CURLOPT_SUPPRESS_CONNECT_HEADERS, which pycurl does not name
STALLED_RATE = 10  # bytes a second that do not count as progress
MAX_SOCKETS = 4_000  # above this number, twice that of the pool, closed ones are forgotten
Place = tuple[str, int]  # local address and port of a connection


class Handle:
    """An easy handle for one transfer after another, and the results of its current transfer."""

    def __init__(self, guard: AddressGuard, idle: IdleSockets, resolves: bool = True) -> None:
        """``idle``: of the pool of connections. ``resolves``: libcurl resolves host names that have
        no pin."""
        self._resolves = resolves
        self._idle = idle
        self._opened: list[int] = []  # sockets, by the current transfer
        self._place = ("", 0)  # of its connection
        self.pinned = False  # libcurl receives the addresses for the current transfer
        self._own = False  # nothing in the current transfer needs a resolver
        self._trusted = False  # its proxy may be at any address
        self.curl = pycurl.Curl()
        self.refused = ""
        self.unopened = ""
        self.failure: FetchError | None = None  # why the body of a saved file was not taken
        self.own_connection = False
        self._guard = guard
        self._plain = True
        self._caps: tuple[int, FetchLimits, int] | None = None
        self._lines: list[bytes] = []
        self._head: list[bytes] = []
        self._body = BytesIO()
        self._sent = 0  # times that libcurl began to send the request
        self._turn = 0  # number of the current transfer
        self._paused = False
        self._loop: asyncio.AbstractEventLoop
        self._account: Account
        self._saving: Saving | None = None
        self._send_time: SendTime
        self._set_fixed()

    def _set_fixed(self) -> None:
        setopt = self.curl.setopt
        setopt(pycurl.NOSIGNAL, 1)
        setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS)
        setopt(pycurl.HTTP_CONTENT_DECODING, 0)
        setopt(pycurl.FOLLOWLOCATION, 0)
        setopt(pycurl.PATH_AS_IS, 1)
        setopt(pycurl.PROXY, "")  # ignore the environment's proxy
        setopt(pycurl.NETRC, pycurl.NETRC_IGNORED)
        setopt(pycurl.CAINFO, os.fsencode(usual_ca()))
        setopt(pycurl.BUFFERSIZE, BUFFER)
        setopt(pycurl.LOW_SPEED_LIMIT, STALLED_RATE)
        setopt(pycurl.OPENSOCKETFUNCTION, self._open_socket)
        setopt(pycurl.SOCKOPTFUNCTION, self._take_socket)
        # Straight into a list, without a Python function for each line.
        setopt(pycurl.HEADERFUNCTION, self._head.append)
        setopt(pycurl.WRITEFUNCTION, self._take)
        setopt(pycurl.PREREQFUNCTION, self._before_sending)
        if not self._resolves:
            setopt(pycurl.DNS_CACHE_TIMEOUT, PIN_SECONDS)
            setopt(pycurl.RESOLVER_START_FUNCTION, self._before_resolving)

    def prepare(
        self,
        journey: Journey,
        seconds: float,
        own_connection: bool,
        pin: Pin | None = None,
        gate: Pin | None = None,
    ) -> None:
        """Prepares the next transfer, which has ``seconds``. ``gate``: where its proxy is."""
        setopt = self.curl.setopt
        self._loop = asyncio.get_running_loop()
        self._account, self._saving = journey.account, journey.saving
        self._saves: bool | None = None
        self._send_time = journey.send_time
        self.own_connection = own_connection
        if own_connection:
            self._plain = False
            setopt(pycurl.FRESH_CONNECT, 1)
            setopt(pycurl.FORBID_REUSE, 1)
            # It is not shared with other streams, whose failure would affect this request.
            setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        setopt(pycurl.URL, journey.url)
        if "%" in journey.url and _LOWER_ESCAPE.search(journey.url):
            self._plain = False
            setopt(pycurl.REQUEST_TARGET, _request_target(journey))
        if journey.proxy is not None and gate is not None:
            self._set_proxy(journey.proxy, gate, pin)
        elif pin is not None:
            self._own = pin.own
            self.pinned = pin.due(own_connection)
            if self.pinned:
                setopt(pycurl.RESOLVE, [pin.line])
        if (tls := journey.tls) is not None:
            self._set_tls(tls)
        limits, saving = journey.limits, journey.saving
        self._most_in_memory = limits.max_body
        most = limits.max_body if saving is None else max(limits.max_body, saving.limit)
        caps = (math.ceil(seconds * 1000), limits, most)
        if caps != self._caps:  # setting only changed options saves time
            self._caps = caps
            setopt(pycurl.TIMEOUT_MS, caps[0])
            setopt(pycurl.CONNECTTIMEOUT_MS, math.ceil(journey.limits.connect * 1000))
            setopt(pycurl.LOW_SPEED_TIME, math.ceil(journey.limits.stall))
            setopt(pycurl.MAXFILESIZE_LARGE, caps[2])
        lines = [_line(name, value) for name, value in journey.headers_to_send()]
        if journey.method != "GET" or journey.body is not None:
            self._set_method(journey, lines)
        if lines != self._lines:
            self._lines = lines
            if lines:
                setopt(pycurl.HTTPHEADER, lines)
            else:
                self.curl.unsetopt(pycurl.HTTPHEADER)  # setting an empty list would change nothing

    def _set_proxy(self, proxy: ChosenProxy, gate: Pin, pin: Pin | None) -> None:
        setopt = self.curl.setopt
        self._plain = False
        self._trusted = proxy.trusted
        setopt(pycurl.PROXY, proxy.url)
        setopt(pycurl.NOPROXY, "")  # not the environment's
        setopt(SUPPRESS_CONNECT_HEADERS, 1)
        if proxy.username:
            setopt(pycurl.PROXYUSERNAME, proxy.username.encode())
            setopt(pycurl.PROXYPASSWORD, proxy.password.reveal().encode())
        if proxy.scheme == "https":
            setopt(pycurl.PROXY_CAINFO, os.fsencode(usual_ca()))
        pins = [one for one in (gate, pin) if one is not None and not one.own]
        self._own = not pins
        if pins:
            setopt(pycurl.RESOLVE, [one.line for one in pins])

    def _set_tls(self, tls: Tls) -> None:
        self._plain = False
        setopt = self.curl.setopt
        if tls.ca:
            setopt(pycurl.CAINFO, os.fsencode(tls.ca))
        setopt(pycurl.SSL_VERIFYPEER, int(tls.verify))
        setopt(pycurl.SSL_VERIFYHOST, 2 if tls.verify else 0)
        if tls.cert:
            setopt(pycurl.SSLCERT, os.fsencode(tls.cert))
            setopt(pycurl.SSLKEY, os.fsencode(tls.key or tls.cert))

    def _set_method(self, journey: Journey, lines: list[bytes]) -> None:
        setopt = self.curl.setopt
        self._plain = False
        if journey.method == "HEAD":
            setopt(pycurl.NOBODY, 1)
            return
        if journey.body is not None or journey.method in ("POST", "PUT", "PATCH"):
            setopt(pycurl.POST, 1)
            setopt(pycurl.POSTFIELDS, journey.body or b"")
            lines.append(b"Expect:")  # no waiting for 100 Continue
            if not any(line.lower().startswith(b"content-type:") for line in lines):
                lines.append(b"Content-Type:")  # instead of the header that libcurl would add
        setopt(pycurl.CUSTOMREQUEST, journey.method)

    def answer(self) -> Answer:
        # The value of a BytesIO shares its buffer and is not a copy.
        body = self._body.getvalue()
        status = self.curl.getinfo(pycurl.RESPONSE_CODE)
        first, headers = self._headers()
        # HTTP/2 has streams, and frames may come at any time.
        if self._opened and not first.startswith(b"HTTP/2 "):
            self._idle.keep(self._place, self._opened)
        return Answer(status, headers, body, self.curl.getinfo(pycurl.PRIMARY_IP))

    def is_unanswered(self, code: int) -> bool:
        """Whether the transfer ended with this code because its connection, which may have been
        used before, was not fit for it: another connection may be."""
        if code == pycurl.E_UNSUPPORTED_PROTOCOL:  # no status line, but the rest of another body
            return self._sent == 1 and not self._opened
        return code == pycurl.E_ABORTED_BY_CALLBACK and not self.own_connection

    def _headers(self) -> tuple[bytes, CIMultiDict[str]]:
        headers: list[tuple[str, str]] = []
        first = b""
        in_head = False  # 1xx responses may come before the head, trailers after it
        for line in self._head:
            if line[:5] == b"HTTP/" and not in_head:
                headers, in_head, first = [], True, line
            elif line in _BLANK:
                in_head = False
            elif in_head and (header := header_of(line)):
                headers.append(header)
        return first, CIMultiDict(headers)

    def clear(self) -> None:
        self._turn += 1
        self._sent = 0
        self._opened.clear()
        self._paused = False
        self._head.clear()
        self._body = BytesIO()
        self.refused = self.unopened = ""
        self.failure = self._saving = None
        if not self._plain:
            self.curl.reset()
            self._caps, self._lines = None, []
            self._trusted = False
            self._set_fixed()
            self._plain = True

    def close(self) -> None:
        self._turn += 1
        self._paused = False
        self.curl.close()

    def _before_sending(self, peer: str, local: str, peer_port: int, local_port: int) -> int:
        """libcurl sends an unanswered request again, up to five times, each time on another
        connection of its pool, and uses connections that have received unrequested bytes. Prevented
        here: ``CurlDownloader.transfer`` decides about both."""
        self._sent += 1
        self._place = (local, local_port)
        if self._opened:  # the connection is new
            self._idle.forget(self._place)
        if self._sent > 1 or self._idle.has_more(self._place):
            return pycurl.PREREQFUNC_ABORT  # type: ignore[no-any-return]
        self._send_time.sent()
        return pycurl.PREREQFUNC_OK  # type: ignore[no-any-return]

    def _take_socket(self, descriptor: int, purpose: int) -> int:
        """Called by libcurl with its own descriptor for each socket."""
        self._opened.append(descriptor)
        return pycurl.SOCKOPT_OK  # type: ignore[no-any-return]

    def _before_resolving(self, *nothing: Any) -> int:
        """Called by libcurl before it resolves a name: it must not do so around the resolver. If it
        has dropped a pin, the transfer is made again with one (`CurlDownloader.transfer`)."""
        return 0 if self._own else 1

    def _take(self, chunk: bytes) -> int | None:
        """Called by libcurl for each part of the body, again with the same when it was paused."""
        if self._saving is not None and (taken := self._save(self._saving, chunk)) is not None:
            return taken
        if self._account.take(len(chunk), self._wake):
            self._body.write(chunk)
            return None
        self._paused = True
        self._loop.call_soon(self._lift_timeout, self._turn)
        return pycurl.WRITEFUNC_PAUSE  # type: ignore[no-any-return]

    def _save(self, saving: Saving, chunk: bytes) -> int | None:
        """The number of bytes taken, 0 if the transfer must end. None: the response is not one that
        is saved, and they belong into memory."""
        try:
            if self._saves is None:
                line, headers = self._headers()  # libcurl tells the status only in the end
                self._saves = saving.begin(int(line.split(None, 2)[1]), headers)
            if not self._saves:
                return None if self._body.tell() + len(chunk) <= self._most_in_memory else 0
            saving.write(chunk)
        except FetchError as error:
            self.failure = error
            return 0
        return len(chunk)

    def _wake(self) -> None:
        """Called, in any thread, when there is memory for the rest."""
        waker(self._loop, self._resume)()

    def _resume(self) -> None:
        if self._paused:
            self._paused = False
            with suppress(pycurl.error):  # the transfer has failed meanwhile
                self.curl.pause(pycurl.PAUSE_CONT)

    def _lift_timeout(self, turn: int) -> None:
        """Lifts the timeout of a transfer that waits for memory; its journey measures the wait.
        Must not be called from within libcurl's call of ``_take``."""
        if turn == self._turn:
            self._caps = None
            self.curl.setopt(pycurl.TIMEOUT_MS, 0)

    def _open_socket(self, purpose: int, address: Any) -> socket.socket | int:
        """Called by libcurl for each new connection, with the resolved address."""
        family, kind, protocol, place = address
        if not self._trusted and not self._guard.allows(place[0]):
            self.refused = place[0]
            return pycurl.SOCKET_BAD  # type: ignore[no-any-return]
        try:
            return _Socket(family, kind, protocol)
        except OSError as error:
            self.unopened = f"no socket: {error.strerror}"
            return pycurl.SOCKET_BAD  # type: ignore[no-any-return]


def _request_target(journey: Journey) -> str:
    """The target as the URL is written; for a proxy that gets the request, with scheme and host."""
    target, url, proxy = target_of(journey.url), journey.url, journey.proxy
    if proxy is None or not proxy.scheme.startswith("http") or url.startswith("https:"):
        return target
    return "/".join(url.split("/", 3)[:3]) + target


class _Socket(socket.socket):
    """pycurl duplicates the descriptor; this one is closed silently with its object."""

    __del__ = socket.socket.close


@lru_cache(maxsize=1024)
def _line(name: str, value: str) -> bytes:
    sent = header_bytes(name, value)
    # In libcurl a semicolon sets an empty value; a colon would remove the header.
    return name.encode("latin-1") + (b": " + sent if sent else b";")


class IdleSockets:
    """The sockets of the HTTP/1 connections in one pool of libcurl, which for a second after its
    last use does not look whether a connection is clean. "If a client receives data on a connection
    that does not have outstanding requests, the client MUST NOT consider that data to be a valid
    response" (RFC 9112, 9.2)."""

    def __init__(self) -> None:
        self._sockets: dict[Place, tuple[int, select.poll]] = {}

    def keep(self, place: Place, opened: Iterable[int]) -> None:
        """Adds a connection: that one of the sockets which is at this place."""
        found = next((one for one in opened if _place_of(one) == place), None)
        if found is None:
            return
        poll = select.poll()
        poll.register(found, select.POLLIN)
        self._sockets[place] = found, poll
        if len(self._sockets) > MAX_SOCKETS:
            items = self._sockets.items()
            self._sockets = {at: one for at, one in items if _place_of(one[0]) == at}

    def forget(self, place: Place) -> None:
        """Removes an earlier connection of this place."""
        self._sockets.pop(place, None)

    def has_more(self, place: Place) -> bool:
        """Whether bytes have come that the next response would start with, or the end."""
        found = self._sockets.get(place)
        if found is None:
            return False
        return bool(found[1].poll(0))


def _place_of(descriptor: int) -> Place | None:
    """Returns None if it is closed, or another file has its number now."""
    try:
        with socket.fromfd(descriptor, socket.AF_INET, socket.SOCK_STREAM) as copy:
            address, port, *_ = copy.getsockname()  # in the family that it really has
    except (OSError, ValueError):
        return None
    return address, port
