"""RequestsDownloader: the same fetches through the requests library in threads, for spiders that
need its adapters and authentication plugins. It costs about ten times as much as curl. A spider
supplies its own with a method ``requests_session(self) -> requests.Session``."""

from __future__ import annotations

import asyncio
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.cookiejar import DefaultCookiePolicy
from io import BytesIO
from pathlib import Path
from typing import Any

import requests
import urllib3
import urllib3.exceptions as urllib3_errors
from multidict import CIMultiDict
from requests import exceptions as requests_errors
from requests.adapters import HTTPAdapter
from requests.cookies import get_cookie_header

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.conf import Network
from crawlframe.errors import (
    BadResponse,
    BadUrl,
    ConnectError,
    ConnectionLost,
    DnsError,
    FetchError,
    FetchTimeout,
    PrivateAddress,
    ProxyAuth,
    ProxyFailed,
    ProxyUnfit,
    ProxyUnreaching,
    TlsError,
)
from crawlframe.fetch.journey.cookies import MAX_HEADER
from crawlframe.fetch.journey.journey import Answer, Journey, header_bytes
from crawlframe.fetch.journey.proxied import AUTH, check_answer
from crawlframe.fetch.names.address_guard import AddressGuard
from crawlframe.fetch.names.resolver import QUESTION_TIMEOUT, Names, Unresolved
from crawlframe.fetch.requests.checked_adapter import CheckedAdapter, on_duty
from crawlframe.identity.tls import Tls, refusal_of, usual_ca

_PROXY_ERRORS = (urllib3_errors.ProxyError, requests_errors.ProxyError)


CHUNK = 1 << 16  # bytes read at a time
SESSIONS = 64  # kinds of sessions that are kept; one per running task, or per cookie jar in it

# Hosts that a spider does not verify are shown with its tasks.
urllib3.disable_warnings(urllib3_errors.InsecureRequestWarning)

SessionFactory = Callable[[], requests.Session]
_Kind = tuple[SessionFactory | None, str]  # with the name of the cookie jar, which is not shared

# The first line that names any link of an exception's chain applies.
_ERRORS: list[tuple[tuple[type[BaseException], ...], type[FetchError]]] = [
    ((urllib3_errors.InvalidChunkLength,), BadResponse),
    ((Unresolved,), DnsError),
    ((urllib3_errors.NameResolutionError, socket.gaierror), DnsError),
    ((urllib3_errors.NewConnectionError, ConnectionRefusedError), ConnectError),
    ((urllib3_errors.TimeoutError, requests_errors.Timeout, TimeoutError), FetchTimeout),
    ((ssl.SSLEOFError, ssl.SSLZeroReturnError, http.client.RemoteDisconnected,
      urllib3_errors.IncompleteRead, http.client.IncompleteRead), ConnectionLost),
    ((ssl.SSLError, urllib3_errors.SSLError, ssl.CertificateError), TlsError),
    ((ConnectionError,), ConnectionLost),
    ((http.client.HTTPException, urllib3_errors.HeaderParsingError), BadResponse),
    ((requests_errors.InvalidURL, requests_errors.InvalidSchema, requests_errors.InvalidHeader,
      urllib3_errors.LocationParseError, urllib3_errors.LocationValueError, UnicodeError), BadUrl),
    ((urllib3_errors.ProxyError, requests_errors.ProxyError), ConnectError),
]  # fmt: skip


class RequestsDownloader:
    """Runs at most ``concurrency`` transfers at a time, each in a thread of its own."""

    def __init__(self, allow_private: tuple[Network, ...], concurrency: int, names: Names) -> None:
        self._names = names
        self._loop: asyncio.AbstractEventLoop
        self._adapter = CheckedAdapter(AddressGuard(allow_private), concurrency, self._resolve)
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix="requests")
        self._dropped: list[requests.Session] = []  # to be closed
        self._sessions: BoundedDict[_Kind, list[requests.Session]] = BoundedDict(
            SESSIONS, lambda _, sessions: self._dropped.extend(sessions)
        )
        self._lock = threading.Lock()
        self._active: set[_Transfer] = set()

    async def close(self) -> None:
        """Ends all transfers, connections and threads."""
        for transfer in [*self._active]:
            transfer.abort()
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            sessions = [session for kept in self._sessions.values() for session in kept]
            self._sessions.clear()
        for session in sessions:
            session.close()
        self._adapter.close_connections()

    async def transfer(self, journey: Journey, factory: SessionFactory | None = None) -> Answer:
        """A transfer of a journey. It is sent once, unless an adapter or plug-in of the author
        sends it more often. ``factory`` makes its session, which is kept and used again by one
        thread at a time. Adapters that it mounts are responsible for their own connections."""
        await journey.wait_to_send()
        return await self._send(_Transfer(journey), factory)

    async def _send(self, transfer: _Transfer, factory: SessionFactory | None) -> Answer:
        journey = transfer.journey
        self._active.add(transfer)
        self._loop = loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._threads, self._run, transfer, factory)
        try:
            await journey.wait_for(running)
            return running.result()
        finally:
            transfer.abort()  # no effect on one that is done
            running.add_done_callback(lambda done: done.cancelled() or done.exception())
            running.cancel()
            self._active.discard(transfer)

    def _run(self, transfer: _Transfer, factory: SessionFactory | None) -> Answer:
        kind = (factory, transfer.journey.session if factory else "")
        session = self._take_session(kind)
        sent = transfer.journey.send_time.sent
        transfer.leave = lambda: self._loop.call_soon_threadsafe(sent)
        try:
            return transfer.run(session)
        finally:
            with self._lock:
                self._sessions[kind] = [*self._sessions.get(kind, ()), session]
                dropped, self._dropped = self._dropped, []
            for old in dropped:
                old.close()

    def _resolve(self, host: str) -> Sequence[str]:
        seconds = QUESTION_TIMEOUT if on_duty.transfer is None else on_duty.transfer.patience()
        return self._names.resolve_in_thread(host, self._loop, seconds)

    def _take_session(self, kind: _Kind) -> requests.Session:
        with self._lock:
            kept = self._sessions.get(kind)
            if kept:
                return kept.pop()
        factory = kind[0]
        session = requests.Session() if factory is None else factory()
        session.trust_env = False  # uses neither proxies nor passwords of this machine
        session.get_redirect_target = lambda resp: None  # type: ignore[method-assign]
        if factory is None:
            session.headers.clear()
            session.verify = usual_ca()
            session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        for scheme in ("http://", "https://"):
            if type(session.adapters.get(scheme)) is HTTPAdapter:
                session.mount(scheme, self._adapter)
        return session


class _Transfer:
    """A request and its response, without redirects. Another thread may call ``abort``."""

    def __init__(self, journey: Journey) -> None:
        """Raises FetchTimeout when the journey has no time left."""
        self.where = journey.where
        self.journey = journey
        self.exact_url = ""
        self.idle: dict[Any, Any] = {}
        self.leave: Callable[[], object] = lambda: None
        # Made in the loop, because the jar is not thread-safe.
        self._headers = dict(journey.headers_to_send())
        self._deadline = time.monotonic() + journey.remaining()
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._aborted = False

    def run(self, session: requests.Session) -> Answer:
        on_duty.transfer = self
        try:
            with self._send(session) as response:
                answer = self._read(response)
            check_answer(answer, self.journey)
            return answer
        except FetchError:
            raise
        except (requests.RequestException, urllib3_errors.HTTPError, OSError, ValueError) as error:
            raise self._named(error) from None
        finally:
            with self._lock:
                self._socket = None
            on_duty.transfer = None
            for connection in self.idle.values():
                connection.close()

    def attach(self, sock: socket.socket | None) -> None:
        """Called by the connection that serves this transfer."""
        with self._lock:
            self._socket = sock
            if self._aborted:
                raise ConnectionAbortedError("the fetch was given up")

    def patience(self) -> float:
        """Seconds that it may take to find or open a connection."""
        return max(0.001, min(self.journey.limits.connect, self._deadline - time.monotonic()))

    def abort(self) -> None:
        """Wakes the thread, whether it waits for the peer or for memory."""
        with self._lock:
            self._aborted = True
            if self._socket is not None:
                try:  # not the shutdown of TLS, which may block
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
                except OSError:
                    pass
        self.journey.account.give_up()

    def _send(self, session: requests.Session) -> requests.Response:
        journey = self.journey
        headers = self._headers
        if not session.auth:  # a plugin may sign the URL as requests quotes it
            self.exact_url = journey.url
        _add_session_cookies(session, journey.url, headers)
        tls = journey.tls or Tls()
        for path in filter(None, (tls.ca, tls.cert, tls.key)):
            if not Path(path).exists():
                raise TlsError(f"{self.where}: there is no file {path}")
        limits, left = journey.limits, max(0.001, self._deadline - time.monotonic())
        return session.request(
            journey.method,
            journey.url,
            headers={name: header_bytes(name, value) for name, value in headers.items()},
            data=journey.body,
            timeout=(min(limits.connect, left), min(limits.stall, left)),
            allow_redirects=False,
            proxies=proxies_of(journey),
            verify=tls.ca or (None if tls.verify else False),
            cert=(tls.cert, tls.key or tls.cert) if tls.cert else None,
            stream=True,
        )

    def _read(self, response: requests.Response) -> Answer:
        raw, saving = response.raw, self.journey.saving
        headers: CIMultiDict[str] = CIMultiDict(raw.headers.items())
        if saving is not None and saving.begin(response.status_code, headers):
            for part in raw.stream(CHUNK, decode_content=False):
                saving.write(part)
            return Answer(response.status_code, headers, b"")
        limit = self.journey.limits.max_body
        length = headers.get("Content-Length", "")
        if length.isdigit() and int(length) > limit and self.journey.method != "HEAD":
            return Answer(response.status_code, headers, None)
        body = BytesIO()
        for part in raw.stream(CHUNK, decode_content=False):
            if body.tell() + len(part) > limit:
                return Answer(response.status_code, headers, None)
            # Waits until the memory account holds that many more bytes.
            account = self.journey.account
            woken = threading.Event()
            while not account.take(len(part), woken.set):
                woken.wait()
                woken.clear()
                if self._aborted:
                    raise ConnectionAbortedError("the fetch was given up")
            body.write(part)
        # The value of a BytesIO shares its buffer and is not a copy.
        return Answer(response.status_code, headers, body.getvalue())

    def _named(self, error: BaseException) -> FetchError:
        links = [*chain(error)]
        if blamed := failure_in(links, self.journey):
            return blamed
        for classes, kind in _ERRORS:
            link = next((link for link in links if isinstance(link, classes)), None)
            if link is None:
                continue
            if kind is FetchTimeout:
                return self.journey.timeout(str(link))
            words = str(link) or type(link).__name__
            return kind(f"{self.journey.where}: {refusal_of(words) if kind is TlsError else words}")
        return ConnectionLost(f"{self.journey.where}: {error}")


def chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and its causes, contexts, arguments and reasons."""
    seen: set[int] = set()
    links: list[Any] = [error]
    while links:
        link = links.pop(0)
        if not isinstance(link, BaseException) or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        links += [*link.args, getattr(link, "reason", None), link.__cause__, link.__context__]


def _add_session_cookies(session: requests.Session, url: str, headers: dict[str, str]) -> None:
    """Adds the cookies of the author's session for which the task has no value."""
    if not session.cookies:
        return
    ours = headers.get("Cookie", "")
    names = {pair.partition("=")[0] for pair in ours.split("; ")}
    theirs = get_cookie_header(session.cookies, requests.Request(url=url)) or ""  # type: ignore[no-untyped-call]
    room = MAX_HEADER - len(ours.encode())
    more = []
    for pair in theirs.split("; "):
        if pair and pair.partition("=")[0] not in names and len(pair) + 2 <= room:
            room -= len(pair) + 2
            more.append(pair)
    if more:
        headers["Cookie"] = "; ".join([*([ours] if ours else []), *more])


def proxies_of(journey: Journey) -> dict[str, str] | None:
    """The argument ``proxies`` of a request. Raises ProxyUnfit."""
    proxy = journey.proxy
    if proxy is None:
        return None
    if not proxy.scheme.startswith("http"):
        raise ProxyUnfit(
            f"{journey.where}: the requests downloader uses http and https proxies only, not "
            f"{proxy.url}; use the downloader curl"
        )
    if not proxy.trusted:  # its address cannot be checked
        raise ProxyUnfit(
            f"{journey.where}: the requests downloader uses proxies that operators have entered, "
            f"not {proxy.url}; import it into the pool, or use the downloader curl"
        )
    return dict.fromkeys(("http", "https"), proxy.full_url)


def failure_in(links: Sequence[BaseException], journey: Journey) -> FetchError | None:
    """The error of the proxy in the chain of an exception; None if the proxy is not known to be
    the reason."""
    proxy = journey.proxy
    if proxy is None or any(isinstance(link, PrivateAddress) for link in links):
        return None
    if not any(isinstance(link, _PROXY_ERRORS) for link in links):
        return None
    texts = " ".join(str(link) for link in links)
    message = f"{journey.where}: proxy {proxy.url}"
    if f"failed: {AUTH}" in texts:
        return ProxyAuth(f"{message} asks for other credentials ({AUTH})")
    if "Tunnel connection failed" in texts:
        return ProxyUnreaching(f"{message} makes no tunnel")
    return ProxyFailed(f"{message}: {type(links[-1]).__name__}")
