"""CheckedAdapter: the way of requests to the network, shared by all sessions of a downloader. It
checks each address with the AddressGuard before it connects, and attaches the socket to the
transfer of its thread."""

from __future__ import annotations

import http.client
import re
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit

import urllib3.connection
import urllib3.connectionpool
from requests import PreparedRequest
from requests.adapters import HTTPAdapter
from requests.auth import _basic_auth_str
from requests.utils import get_auth_from_url, select_proxy
from urllib3.exceptions import HTTPError, NameResolutionError
from urllib3.util.connection import is_connection_dropped

from crawlframe.base.urls import target_of
from crawlframe.errors import PrivateAddress
from crawlframe.fetch.journey.journey import header_of
from crawlframe.fetch.names.address_guard import AddressGuard

# The limits of libcurl.
MAX_LINE = 100 << 10  # bytes
MAX_HEAD = 300 << 10  # bytes, including 1xx responses
MAX_HEADERS = 5000
_STATUS = re.compile(rb"HTTP/(1\.[01]|[23]\.0) ([1-9][0-9]{2})(?: (.*))?", re.IGNORECASE)


class ThreadTransfer(Protocol):
    """A request and its response, in one thread."""

    where: str  # for error messages
    exact_url: str  # sent as it is, without requests' quoting; "" for the quoted URL
    idle: dict[Any, Any]  # by pool: its own connections, which it may use again

    def attach(self, sock: socket.socket | None) -> None:
        """Called when ``sock`` serves the transfer."""

    def leave(self) -> object:
        """Called when it goes out, on a connection that is ready."""

    def patience(self) -> float:
        """Seconds that it may take to find or open a connection."""


class _OnDuty(threading.local):
    transfer: ThreadTransfer | None = None
    target: str | None = None  # path and query to send in place of urllib3's quoted ones


on_duty = _OnDuty()  # the transfer of this thread


Resolve = Callable[[str], Sequence[str]]  # the addresses of a host; raises OSError
Allowed = Callable[[str], list[str]]  # the allowed addresses; raises OSError and PrivateAddress


class CheckedAdapter(HTTPAdapter):
    """Connects only to addresses that ``guard`` allows, else raises PrivateAddress. ``resolve`` is
    called in the thread of the transfer.

    A proxy named by a session may be anywhere, but is used only for hosts that resolve to allowed
    addresses here, or not at all."""

    def __init__(self, guard: AddressGuard, concurrency: int, resolve: Resolve) -> None:
        self._guard = guard
        self._resolve = resolve
        super().__init__(pool_connections=concurrency, pool_maxsize=concurrency)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _pools(self._allowed)

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **kwargs)
        if not proxy.lower().startswith("socks"):  # these have pools of their own
            manager.pool_classes_by_scheme = _pools(self._allowed)
        return manager

    def send(
        self,
        request: Any,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Any = None,
    ) -> Any:
        if select_proxy(request.url, proxies):
            self._check_target(request.url)
        on_duty.target = _exact_target(request.url)
        return super().send(request, stream, timeout, verify, cert, proxies)

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        # requests goes by the URL, and would trust any https proxy that gets an http URL.
        url = "https:" if conn.scheme == "https" else url
        super().cert_verify(conn, url, verify, cert)  # type: ignore[no-untyped-call]

    def proxy_headers(self, proxy: str) -> dict[str, str]:
        login = [text.encode() for text in get_auth_from_url(proxy)]  # requests sends Latin-1
        return {"Proxy-Authorization": _basic_auth_str(*login)} if any(login) else {}

    def _allowed(self, host: str) -> list[str]:
        return self._guard.allowed(self._resolve(host), _where())

    def _check_target(self, url: str) -> None:
        parts = urlsplit(url)
        try:
            addresses = self._resolve(parts.hostname or "")
        except OSError:
            return  # only the proxy can resolve it
        for address in addresses:
            if not self._guard.allows(address):
                raise PrivateAddress.of(address, _where())

    def close(self) -> None:
        """Does nothing: sessions come and go."""

    def close_connections(self) -> None:
        super().close()


def _exact_target(prepared: str) -> str | None:
    """Path and query of the transfer's URL, if requests has only quoted it. None: the session has
    made another URL of it."""
    url = on_duty.transfer.exact_url if on_duty.transfer is not None else ""
    if not url or url == prepared:
        return None
    quoted = PreparedRequest()
    quoted.prepare_url(url, None)
    return target_of(url) if quoted.url == prepared else None


def _where() -> str:
    return "" if on_duty.transfer is None else on_duty.transfer.where


class TolerantResponse(http.client.HTTPResponse):
    """The response of a connection of http.client."""

    _left: int  # bytes that the head may still have
    _method: str

    def begin(self) -> None:
        """Reads the head. Raises HTTPException if it is not valid."""
        if self.headers is not None:
            return
        self._left = MAX_HEAD
        status = 100
        while 100 <= status < 200:  # the response follows
            lines = self._read_head()
            found = _STATUS.fullmatch(lines[0])
            if found is None:
                raise http.client.BadStatusLine(lines[0].decode("latin-1"))
            status = int(found[2])
            if status == 101:
                raise http.client.HTTPException("it switches to a protocol that was not asked for")
        self.code = self.status = status
        self.reason = (found[3] or b"").decode("latin-1").strip()
        self.version = 10 if found[1] == b"1.0" else 11
        self.headers = self.msg = http.client.HTTPMessage()
        for line in lines[1:]:
            if header := header_of(line):
                self.headers.add_header(*header)
        self._delimit()

    def _read_head(self) -> list[bytes]:
        """The lines of a head, continued ones joined, without lines that are no headers."""
        lines: list[bytes] = []
        while line := self.fp.readline(MAX_LINE + 1):
            self._left -= len(line)
            if len(line) > MAX_LINE or self._left < 0 or len(lines) > MAX_HEADERS:
                raise http.client.HTTPException("the head is too large")
            line = line.removesuffix(b"\n").removesuffix(b"\r")
            if b"\r" in line or b"\0" in line:
                raise http.client.HTTPException("a header has a carriage return or NUL byte")
            folded = line[:1] in (b" ", b"\t")
            if not lines or (b":" in line and not folded):
                lines.append(line)
            elif not line:
                return lines
            elif folded and len(lines) > 1 and lines[-1]:
                lines[-1] += b" " + line.strip()
            else:
                lines.append(b"")  # its continuation is ignored, too
        if not lines:
            raise http.client.RemoteDisconnected("the connection was closed without a response")
        return lines

    def _delimit(self) -> None:
        """Sets where the body ends (RFC 9112, 6.3). Raises HTTPException if that is unclear."""
        codings = _values(self.headers, "Transfer-Encoding") - {"identity"}
        lengths = _values(self.headers, "Content-Length")
        if codings - {"chunked"}:
            raise http.client.HTTPException(f"it has the transfer coding {max(codings)!r}")
        if len(lengths) > 1 or not all(one.isascii() and one.isdigit() for one in lengths):
            raise http.client.HTTPException(f"it has the length {' and '.join(sorted(lengths))!r}")
        self.chunked = bool(codings)
        self.chunk_left = None
        self.length = None if self.chunked or not lengths else int(lengths.pop())
        if self.status in (204, 304) or self._method == "HEAD":
            self.length = 0
        unlimited = not self.chunked and self.length is None
        self.will_close = bool(self._check_close() or unlimited)  # type: ignore[attr-defined]


def _values(headers: http.client.HTTPMessage, name: str) -> set[str]:
    lists = headers.get_all(name, [])
    return {value.strip().lower() for values in lists for value in values.split(",")}


class _Checked:
    """Mixed into urllib3's connections."""

    allowed: Allowed
    response_class: Any = TolerantResponse
    proxy: Any
    _dns_host: str
    sock: socket.socket | None

    def _new_conn(self) -> socket.socket:
        if self.proxy:  # its address is the author's choice; ``send`` has checked the target
            return super()._new_conn()  # type: ignore[misc, no-any-return]
        host = self._dns_host
        try:
            allowed = self.allowed(host)
        except OSError as error:
            raise NameResolutionError(host, self, error) from error  # type: ignore[arg-type]
        try:
            for address in allowed[:-1]:
                self._dns_host = address
                try:
                    return super()._new_conn()  # type: ignore[misc, no-any-return]
                except HTTPError:
                    pass
            self._dns_host = allowed[-1]
            return super()._new_conn()  # type: ignore[misc, no-any-return]
        finally:
            self._dns_host = host

    def connect(self) -> None:
        super().connect()  # type: ignore[misc]
        _attach(self)

    def request(self, method: str, url: str, *args: Any, **kwargs: Any) -> None:
        _attach(self)  # an open connection does not connect again
        if on_duty.target is not None:  # a proxy gets the scheme and the host before it
            host = "" if url.startswith("/") else "/".join(url.split("/", 3)[:3])
            url = host + on_duty.target
        super().request(method, url, *args, **kwargs)  # type: ignore[misc]

    def endheaders(self, *args: Any, **kwargs: Any) -> None:
        # The delay of the host counts from here, where the connection is ready.
        if self.sock is None:
            self.connect()
        if on_duty.transfer is not None:
            on_duty.transfer.leave()
        super().endheaders(*args, **kwargs)  # type: ignore[misc]


class _Apart:
    """Mixed into urllib3's pools. A connection serves one transfer, so that nothing a server
    sends too much or too late becomes the response to another URL. The transfer may
    use it again: NTLM logs in connections."""

    def _get_conn(self, timeout: float | None = None) -> Any:
        if on_duty.transfer is None:
            return super()._get_conn(timeout)  # type: ignore[misc]
        connection = on_duty.transfer.idle.pop(self, None)
        if connection is not None and is_connection_dropped(connection):
            connection.close()  # it reopens by itself
        return connection or self._new_conn()  # type: ignore[attr-defined]

    def _put_conn(self, conn: Any) -> None:
        if on_duty.transfer is None:
            super()._put_conn(conn)  # type: ignore[misc]
        elif conn is not None:
            on_duty.transfer.idle[self] = conn


def _pools(use: Allowed) -> dict[str, type[urllib3.connectionpool.HTTPConnectionPool]]:
    class Connection(_Checked, urllib3.connection.HTTPConnection):
        allowed = staticmethod(use)

    class TlsConnection(_Checked, urllib3.connection.HTTPSConnection):
        allowed = staticmethod(use)

    class Pool(_Apart, urllib3.connectionpool.HTTPConnectionPool):
        ConnectionCls = Connection

    class TlsPool(_Apart, urllib3.connectionpool.HTTPSConnectionPool):
        ConnectionCls = TlsConnection

    return {"http": Pool, "https": TlsPool}


def _attach(connection: Any) -> None:
    if on_duty.transfer is not None:
        on_duty.transfer.attach(connection.sock)
