"""CurlDownloader: many transfers at once on libcurl, in one event loop.

It belongs to the event loop and the process of its first fetch; create it after the fork."""

from __future__ import annotations

import asyncio
import re
import resource
import time
from collections.abc import Callable, Mapping
from typing import Any

import pycurl

from crawlframe.conf import Network
from crawlframe.errors import (
    BadEncoding,
    BadHeader,
    BadResponse,
    BadUrl,
    ConfigError,
    ConnectError,
    ConnectionLost,
    DnsError,
    FetchError,
    FetchTimeout,
    PrivateAddress,
    ProxyFailed,
    TlsError,
)
from crawlframe.fetch.curl.handle import Handle, IdleSockets
from crawlframe.fetch.journey.context import FetchContext, FetchLimits
from crawlframe.fetch.journey.cookies import TaskCookies
from crawlframe.fetch.journey.journey import Answer, Journey
from crawlframe.fetch.journey.proxied import check_answer, check_target, failure_of, pin_of
from crawlframe.fetch.names.address_guard import AddressGuard
from crawlframe.fetch.names.resolver import AddressPins, Names, Pin, Unresolved
from crawlframe.identity.tls import refusal_of
from crawlframe.request.request import Request
from crawlframe.response.response import Response

MIN_VERSION = 0x080400  # 8.4: the first whose MAXFILESIZE stops bodies of unknown length too
STUCK_AFTER = 5.0  # seconds after the timeout at which libcurl counts as stuck
# Open connections, idle or not. Each takes some 100 KiB, and opening one as much CPU as a page: a
# crawl of many hosts comes back to each after it has been to all others.
CONNECTIONS_PER_TRANSFER, MAX_CONNECTIONS = 16, 2_000

_ERRORS: dict[int, type[FetchError]] = {
    pycurl.E_UNSUPPORTED_PROTOCOL: BadResponse,  # HTTP/0.9: a response without a status line
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
    pycurl.E_BAD_CONTENT_ENCODING: BadEncoding,  # a transfer coding that was not requested
    pycurl.E_SSL_CIPHER: TlsError,
    pycurl.E_PEER_FAILED_VERIFICATION: TlsError,
    pycurl.E_SSL_SHUTDOWN_FAILED: TlsError,
    pycurl.E_SSL_CACERT_BADFILE: TlsError,
    pycurl.E_SSL_CRL_BADFILE: TlsError,
    pycurl.E_SSL_ISSUER_ERROR: TlsError,
    pycurl.E_SSL_PINNEDPUBKEYNOTMATCH: TlsError,
    pycurl.E_SSL_INVALIDCERTSTATUS: TlsError,
    pycurl.E_ABORTED_BY_CALLBACK: ConnectionLost,  # by Handle._before_sending
    92: ConnectionLost,  # CURLE_HTTP2_STREAM
    98: TlsError,  # CURLE_SSL_CLIENTCERT
    100: BadResponse,  # CURLE_TOO_LARGE: of the head
}
# How libcurl's TLS libraries report that the connection broke during the handshake.
_BROKEN_HANDSHAKE = re.compile(
    r"reset by peer|broken pipe|SSL_ERROR_(?:SYSCALL|ZERO_RETURN)|unexpected eof"
    r"|non-properly terminated|error in the (?:pull|push) function"
    r"|connection (?:was )?(?:closed|aborted)",
    re.IGNORECASE,
)


def pool_size(concurrency: int, files: int) -> int:
    """The connections that stay open in a process that may open so many files."""
    half = files // 2 if files != resource.RLIM_INFINITY else MAX_CONNECTIONS
    return min(CONNECTIONS_PER_TRANSFER * concurrency, max(half, concurrency), MAX_CONNECTIONS)


class CurlDownloader:
    """``concurrency``: transfers at once that are expected, not enforced. Without ``names``,
    libcurl resolves host names itself, in threads."""

    def __init__(
        self,
        allow_private: tuple[Network, ...] = (),
        concurrency: int = 64,
        names: Names | None = None,
    ) -> None:
        if pycurl.version_info()[2] < MIN_VERSION:
            raise ConfigError(
                f"libcurl is {pycurl.version_info()[1]}, it must be 8.4 or newer; "
                "install pycurl from a wheel"
            )
        self._guard = AddressGuard(allow_private)
        self._concurrency = concurrency
        self._pins = None if names is None else AddressPins(names)
        self._multi: pycurl.AsyncCurlMulti | None = None
        self._idle: list[Handle] = []
        self._idle_sockets = IdleSockets()

    async def fetch(
        self,
        request: Request,
        limits: FetchLimits,
        headers: Mapping[str, str],
        jar: TaskCookies | None = None,
        allowed: Callable[[str], bool] | None = None,
    ) -> Response:
        """The response to ``request``, sent with ``headers`` only. ``allowed`` decides about the
        host names of redirects. Raises FetchError; may be cancelled."""
        context = FetchContext(allowed=allowed)
        return await Journey(request, limits, headers, jar, context).run(self.transfer)

    async def close(self) -> None:
        """Ends all transfers and connections."""
        for handle in self._idle:
            handle.close()
        self._idle.clear()
        if self._multi is not None:
            await self._multi.aclose()
            self._multi = None

    async def transfer(self, journey: Journey) -> Answer:
        """One transfer of a journey.

        A request is sent once. An idempotent request is sent a second time, on a new connection,
        when it got no response on a connection that had been used before: the server may have just
        closed that connection, or still been sending the response to an earlier request. Any other
        request has a new connection from the start."""
        if not journey.idempotent:
            return await self._send(journey, own_connection=True)
        try:
            return await self._send(journey)
        except _Unanswered:
            journey.account.restart()
            return await self._send(journey, own_connection=True)

    async def _send(self, journey: Journey, own_connection: bool = False) -> Answer:
        pins, proxy, gate = self._pins, journey.proxy, None
        if proxy is not None:
            assert pins is not None
            await check_target(journey.url, journey.where, pins.names, self._guard)
            gate = await pin_of(proxy, pins, min(journey.limits.connect, journey.remaining()))
        pin = None
        if pins is not None and (proxy is None or not proxy.resolves):
            pin = pins.get(journey.url) or await self._find(pins, journey)
        await journey.wait_to_send()
        seconds = journey.remaining()
        multi = self._multi or self._open()
        handle = self._idle.pop() if self._idle else self._new_handle()
        try:
            handle.prepare(journey, seconds, own_connection, pin, gate)
            done = multi.add_handle(handle.curl)
            # A bug between libcurl, pycurl and the loop must not hold a request for ever.
            watch = _Watch(journey, done, seconds)
            try:
                await done
            finally:
                watch.cancel()
            answer = handle.answer()
        except pycurl.error as error:
            return self._failed(handle, journey, error)
        except BaseException as error:
            # AsyncCurlMulti removes cancelled transfers, but not if the coroutine is closed; it
            # does so by the handle's identity, so none is reused.
            try:
                multi.remove_handle(handle.curl)
            except (RuntimeError, pycurl.error):
                pass  # it has been removed already
            handle.close()
            if isinstance(error, TimeoutError):
                stuck = "" if journey.account.waited else "libcurl is stuck"
                raise journey.timeout(stuck) from None
            raise
        if handle.pinned and pin is not None:
            pin.told = time.monotonic()
        self._put_back(handle)
        if proxy is not None:
            check_answer(answer, journey)
            return answer._replace(address="")  # the address of the proxy
        return answer

    async def _find(self, pins: AddressPins, journey: Journey) -> Pin:
        """The addresses of the host of a transfer."""
        try:
            return await pins.find(journey.url, min(journey.limits.connect, journey.remaining()))
        except Unresolved as error:
            raise DnsError(f"{journey.where}: {error}") from None

    def _new_handle(self) -> Handle:
        return Handle(self._guard, self._idle_sockets, resolves=self._pins is None)

    def _open(self) -> pycurl.AsyncCurlMulti:
        self._multi = multi = pycurl.AsyncCurlMulti()
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        multi.setopt(pycurl.M_MAXCONNECTS, pool_size(self._concurrency, files))
        return multi

    def _failed(self, handle: Handle, journey: Journey, error: pycurl.error) -> Answer:
        code, detail = error.args[0], str(error.args[1])
        if failure := handle.failure:
            self._put_back(handle)
            raise failure
        # A body of an error in place of a file may be as large as a page.
        if code in (pycurl.E_FILESIZE_EXCEEDED, pycurl.E_WRITE_ERROR):
            answer = handle.answer()
            self._put_back(handle)
            return answer._replace(body=None)
        refused, unopened, unanswered = handle.refused, handle.unopened, handle.is_unanswered(code)
        blamed: FetchError | None = None
        if journey.proxy is not None and not refused and not unopened:
            blamed = failure_of(handle.curl, code, detail, journey)
        elif journey.proxy is not None and journey.proxy.of_pool and refused:
            blamed = ProxyFailed(
                f"{journey.where}: proxy {journey.proxy.url} is at {refused}, which is not a "
                "public address"
            )
        self._put_back(handle)
        if blamed is not None:
            raise blamed from None
        if code == pycurl.E_COULDNT_CONNECT and refused:
            raise PrivateAddress.of(refused, journey.where) from None
        kind = _kind(code, detail)
        if kind is None:  # an error of the multi handle itself, or a bug: do not use it again
            self._multi = None
            kind = ConnectionLost
        if kind is FetchTimeout:
            raise journey.timeout(detail) from None
        if kind is TlsError:
            detail = refusal_of(detail)
        message = f"{journey.where}: {unopened or detail} (curl {code})"
        if unanswered:
            raise _Unanswered(message) from None
        raise kind(message) from None

    def _put_back(self, handle: Handle) -> None:
        handle.clear()
        if len(self._idle) < self._concurrency:
            self._idle.append(handle)
        else:
            handle.close()


class _Unanswered(ConnectionLost):
    """The request got no response on a connection that had been used before, or only the rest of an
    earlier one, or the server refused to process it."""


class _Watch:
    """Ends a transfer that is still running when its time is over and libcurl does nothing."""

    def __init__(self, journey: Journey, done: asyncio.Future[Any], seconds: float) -> None:
        self._journey = journey
        self._done = done
        self._timer = done.get_loop().call_later(seconds + STUCK_AFTER, self._check)

    def cancel(self) -> None:
        self._timer.cancel()

    def _check(self) -> None:
        if self._done.done():
            return
        left = self._journey.left()
        if left > 0:  # it has waited for memory meanwhile
            self._timer = self._done.get_loop().call_later(max(0.01, left), self._check)
        else:
            self._done.set_exception(TimeoutError())


def _kind(code: int, detail: str) -> type[FetchError] | None:
    """The error class for a libcurl code, which alone is not always sufficient."""
    if code == pycurl.E_SSL_CONNECT_ERROR and _BROKEN_HANDSHAKE.search(detail):
        return ConnectionLost
    if code == pycurl.E_RECV_ERROR and ("chunk" in detail or "headers" in detail):
        return BadResponse  # its transfer coding is invalid, or its head too large
    if code == pycurl.E_FTP_WEIRD_SERVER_REPLY and "without colon" in detail:
        return BadHeader
    return _ERRORS.get(code)
