"""CurlDownloader: many transfers at once on libcurl, in one event loop.

It belongs to the loop and the process of its first fetch; make it after the fork."""

from __future__ import annotations

import asyncio
import math
import os
import socket
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import certifi
import pycurl
from multidict import CIMultiDict

from crawlframe.conf import Network
from crawlframe.errors import (
    BadEncoding,
    BadResponse,
    BadUrl,
    ConfigError,
    ConnectError,
    ConnectionLost,
    DnsError,
    FetchError,
    FetchTimeout,
    PrivateAddress,
    TlsError,
)
from crawlframe.fetch.addresses import AddressGuard
from crawlframe.fetch.cookies import TaskCookies
from crawlframe.fetch.limits import FetchLimits
from crawlframe.fetch.redirects import Answer, Journey, header_bytes
from crawlframe.request import Request
from crawlframe.response import Response

OLDEST = 0x080400  # 8.4: the first libcurl whose MAXFILESIZE stops bodies of unknown length too
BUFFER = 1 << 17  # bytes libcurl reads at a time
STALLED = 10  # bytes a second that do not count as progress
PATIENCE = 5.0  # seconds after the timeout at which libcurl itself is taken to be stuck

_ERRORS: dict[int, type[FetchError]] = {
    pycurl.E_UNSUPPORTED_PROTOCOL: BadResponse,  # HTTP/0.9: an answer without a status line
    pycurl.E_URL_MALFORMAT: BadUrl,
    pycurl.E_COULDNT_RESOLVE_HOST: DnsError,
    pycurl.E_COULDNT_CONNECT: ConnectError,
    pycurl.E_FTP_WEIRD_SERVER_REPLY: BadResponse,
    pycurl.E_HTTP2: ConnectionLost,
    pycurl.E_PARTIAL_FILE: ConnectionLost,
    pycurl.E_OPERATION_TIMEDOUT: FetchTimeout,
    pycurl.E_SSL_CONNECT_ERROR: TlsError,
    pycurl.E_GOT_NOTHING: ConnectionLost,
    pycurl.E_SSL_ENGINE_NOTFOUND: TlsError,
    pycurl.E_SSL_ENGINE_SETFAILED: TlsError,
    pycurl.E_SEND_ERROR: ConnectionLost,
    pycurl.E_RECV_ERROR: ConnectionLost,
    pycurl.E_SSL_CERTPROBLEM: TlsError,
    pycurl.E_BAD_CONTENT_ENCODING: BadEncoding,  # a transfer coding nobody asked for
    pycurl.E_SSL_CIPHER: TlsError,
    pycurl.E_PEER_FAILED_VERIFICATION: TlsError,
    pycurl.E_SSL_SHUTDOWN_FAILED: TlsError,
    pycurl.E_SSL_CRL_BADFILE: TlsError,
    pycurl.E_SSL_ISSUER_ERROR: TlsError,
    pycurl.E_SSL_PINNEDPUBKEYNOTMATCH: TlsError,
    pycurl.E_SSL_INVALIDCERTSTATUS: TlsError,
    92: ConnectionLost,  # CURLE_HTTP2_STREAM
    98: TlsError,  # CURLE_SSL_CLIENTCERT
    100: BadResponse,  # CURLE_TOO_LARGE: of the head
}


class CurlDownloader:
    """``concurrency`` bounds the connections kept open, not the fetches at a time."""

    def __init__(self, allow_private: tuple[Network, ...] = (), concurrency: int = 64) -> None:
        if pycurl.version_info()[2] < OLDEST:
            raise ConfigError(
                f"libcurl is {pycurl.version_info()[1]}, it must be 8.4 or newer; "
                "install pycurl from a wheel"
            )
        self._guard = AddressGuard(allow_private)
        self._concurrency = concurrency
        self._multi: pycurl.AsyncCurlMulti | None = None
        self._idle: list[_Handle] = []

    async def fetch(
        self,
        request: Request,
        limits: FetchLimits,
        headers: Mapping[str, str],
        jar: TaskCookies | None = None,
        allowed: Callable[[str], bool] | None = None,
    ) -> Response:
        """The response to ``request``, sent with ``headers`` only. ``allowed`` judges the host
        names of redirects. Raises FetchError; may be cancelled."""
        return await Journey(request, limits, headers, jar, allowed).run(self._transfer)

    async def close(self) -> None:
        """Ends all transfers and connections."""
        for handle in self._idle:
            handle.curl.close()
        self._idle.clear()
        if self._multi is not None:
            await self._multi.aclose()
            self._multi = None

    async def _transfer(self, journey: Journey) -> Answer:
        seconds = journey.remaining()
        multi = self._multi or self._open()
        handle = self._idle.pop() if self._idle else _Handle(self._guard)
        try:
            handle.prepare(journey, seconds)
            done = multi.add_handle(handle.curl)
            # A bug between libcurl, pycurl and the loop must not hold a request for ever.
            watch = done.get_loop().call_later(seconds + PATIENCE, _fail, done)
            try:
                await done
            finally:
                watch.cancel()
            answer = handle.answer()
        except pycurl.error as error:
            return self._failed(handle, journey, error)
        except BaseException as error:
            self._abandon(handle, multi)
            if isinstance(error, TimeoutError):
                raise journey.timeout("libcurl is stuck") from None
            raise
        self._put_back(handle)
        return answer

    def _open(self) -> pycurl.AsyncCurlMulti:
        self._multi = multi = pycurl.AsyncCurlMulti()
        multi.setopt(pycurl.M_MAXCONNECTS, self._concurrency)
        return multi

    def _failed(self, handle: _Handle, journey: Journey, error: pycurl.error) -> Answer:
        code, detail = error.args[0], str(error.args[1])
        if code == pycurl.E_FILESIZE_EXCEEDED:
            answer = handle.answer()
            self._put_back(handle)
            return answer._replace(body=None)
        refused, unopened = handle.refused, handle.unopened
        self._put_back(handle)
        if code == pycurl.E_COULDNT_CONNECT and refused:
            raise PrivateAddress(
                f"{journey.where}: {refused} is no public address; to crawl it, allow its network "
                "in CRAWLFRAME_ALLOW_PRIVATE"
            ) from None
        kind = _ERRORS.get(code)
        if kind is None:  # of the multi handle itself or a bug: do not trust it any longer
            self._multi = None
            kind = ConnectionLost
        if kind is FetchTimeout:
            raise journey.timeout(detail) from None
        raise kind(f"{journey.where}: {unopened or detail} (curl {code})") from None

    def _put_back(self, handle: _Handle) -> None:
        handle.clear()
        if len(self._idle) < self._concurrency:
            self._idle.append(handle)
        else:
            handle.curl.close()

    def _abandon(self, handle: _Handle, multi: pycurl.AsyncCurlMulti) -> None:
        """Of a transfer cut short. AsyncCurlMulti takes out those that were cancelled, but not when
        the coroutine is closed; and it does so by the handle's identity, so none is used again."""
        try:
            multi.remove_handle(handle.curl)
        except (RuntimeError, pycurl.error):
            pass  # it was taken out already
        handle.curl.close()


class _Handle:
    """An easy handle for one transfer after another, and what its transfer has brought."""

    def __init__(self, guard: AddressGuard) -> None:
        self.curl = pycurl.Curl()
        self.refused = ""
        self.unopened = ""
        self._guard = guard
        self._plain = True
        self._caps: tuple[int, FetchLimits] | None = None
        self._lines: list[bytes] = []
        self._head: list[bytes] = []
        self._body: list[bytes] = []
        self._set_fixed()

    def _set_fixed(self) -> None:
        setopt = self.curl.setopt
        setopt(pycurl.NOSIGNAL, 1)
        setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS)
        setopt(pycurl.HTTP_CONTENT_DECODING, 0)
        setopt(pycurl.FOLLOWLOCATION, 0)
        setopt(pycurl.PATH_AS_IS, 1)
        setopt(pycurl.PROXY, "")  # not that of the environment
        setopt(pycurl.NETRC, pycurl.NETRC_IGNORED)
        setopt(pycurl.CAINFO, os.environ.get("SSL_CERT_FILE") or certifi.where())
        setopt(pycurl.BUFFERSIZE, BUFFER)
        setopt(pycurl.LOW_SPEED_LIMIT, STALLED)
        setopt(pycurl.OPENSOCKETFUNCTION, self._open_socket)
        # Straight into lists, without a Python function for each line and chunk.
        setopt(pycurl.HEADERFUNCTION, self._head.append)
        setopt(pycurl.WRITEFUNCTION, self._body.append)

    def prepare(self, journey: Journey, seconds: float) -> None:
        """Everything the next transfer needs. It has ``seconds``."""
        setopt = self.curl.setopt
        setopt(pycurl.URL, journey.url)
        caps = (math.ceil(seconds * 1000), journey.limits)
        if caps != self._caps:  # an option that stays costs nothing
            self._caps = caps
            setopt(pycurl.TIMEOUT_MS, caps[0])
            setopt(pycurl.CONNECTTIMEOUT_MS, math.ceil(journey.limits.connect * 1000))
            setopt(pycurl.LOW_SPEED_TIME, math.ceil(journey.limits.stall))
            setopt(pycurl.MAXFILESIZE_LARGE, journey.limits.max_body)
        lines = [_line(name, value) for name, value in journey.headers_to_send()]
        if journey.method != "GET" or journey.body is not None:
            self._set_method(journey, lines)
        if lines != self._lines:
            self._lines = lines
            if lines:
                setopt(pycurl.HTTPHEADER, lines)
            else:
                self.curl.unsetopt(pycurl.HTTPHEADER)  # an empty list would change nothing

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
                lines.append(b"Content-Type:")  # not the one libcurl would make up
        setopt(pycurl.CUSTOMREQUEST, journey.method)

    def answer(self) -> Answer:
        text = b"".join(self._head).decode("latin-1").replace("\r\n", "\n")
        # 1xx answers may come before the head, trailers after it.
        head = [block for block in text.split("\n\n") if block.startswith("HTTP/")][-1]
        pairs = [line.partition(":") for line in head.split("\n")[1:]]
        headers = CIMultiDict([(name, value.strip()) for name, colon, value in pairs if colon])
        return Answer(self.curl.getinfo(pycurl.RESPONSE_CODE), headers, b"".join(self._body))

    def clear(self) -> None:
        self._head.clear()
        self._body.clear()
        self.refused = self.unopened = ""
        if not self._plain:
            self.curl.reset()
            self._caps, self._lines = None, []
            self._set_fixed()
            self._plain = True

    def _open_socket(self, purpose: int, address: Any) -> socket.socket | int:
        """Called by libcurl for each new connection, with the resolved address."""
        family, kind, protocol, place = address
        if not self._guard.allows(place[0]):
            self.refused = place[0]
            return pycurl.SOCKET_BAD  # type: ignore[no-any-return]
        try:
            return _Socket(family, kind, protocol)
        except OSError as error:
            self.unopened = f"no socket: {error.strerror}"
            return pycurl.SOCKET_BAD  # type: ignore[no-any-return]


class _Socket(socket.socket):
    """pycurl takes a copy of the descriptor, this one ends quietly with its object."""

    __del__ = socket.socket.close


def _fail(done: asyncio.Future[Any]) -> None:
    if not done.done():
        done.set_exception(TimeoutError())


@lru_cache(maxsize=1024)
def _line(name: str, value: str) -> bytes:
    sent = header_bytes(value)
    # A semicolon is how libcurl is told of an empty value; a colon would take the header out.
    return name.encode("latin-1") + (b": " + sent if sent else b";")
