"""Names: the addresses of host names, each kept for its TTL and shared by a worker's transfers.

A project may resolve names itself: the setting CRAWLFRAME_RESOLVER names an async function
``resolve(host)`` that returns ``(addresses, ttl)``, or None to leave the host to the name
servers."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import ipaddress
import logging
import math
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from time import monotonic
from typing import NamedTuple

import aiodns
import pycares

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.base.urls import host_of, is_address
from crawlframe.errors import ConfigError

LEAST_TTL = 1.0  # seconds: with a TTL of 0, every request would ask
LONGEST_TTL = 86400.0
QUESTION_TIMEOUT = 15.0  # seconds that one question may take
MAX_NAMES = 10_000  # remembered by a worker
LOOPBACK = ("::1", "127.0.0.1")  # of localhost and the names below it, by RFC 6761
GONE_SECONDS = 60.0  # seconds for which a name that does not exist is not asked for again
FAILURE_SECONDS = 5.0  # seconds for which a failure of name servers is remembered
# c-ares waits for a server five times as long as that takes on average, at least 0.25 s, then twice
# as long on each try: 8 s at the least, because a server must often ask others itself.
TRIES = 5
PIN_SECONDS = 60  # seconds for which libcurl remembers addresses; it keeps 30,000, the newest
REFRESH_SECONDS = 20.0  # seconds after which it receives them again, before it forgets

# Search domains are off: they multiply the questions, and let a name mean different hosts on
# different nodes.
_FLAGS = pycares.ARES_FLAG_NOSEARCH | pycares.ARES_FLAG_NOALIASES | pycares.ARES_FLAG_EDNS

_PROBLEMS = {
    "ARES_ENOTFOUND": "there is no such name (NXDOMAIN)",
    "ARES_ENODATA": "the name has no address",
    "ARES_ESERVFAIL": "its name servers fail (SERVFAIL)",
    "ARES_EREFUSED": "the name server refuses to say (REFUSED)",
    "ARES_ECONNREFUSED": "no name server can be reached",
    "ARES_ETIMEOUT": "no name server replied in time",
    "ARES_EBADNAME": "this is not a valid name",
    "ARES_EBADRESP": "the reply of the name server is invalid",
    "ARES_EFORMERR": "the name server does not understand the question (FORMERR)",
    "ARES_ENOTIMP": "the name server does not support the question (NOTIMP)",
}
_LASTING = ("ARES_ENOTFOUND", "ARES_ENODATA", "ARES_EBADNAME")

Hook = Callable[[str], Awaitable[tuple[Iterable[str], float] | None]]

log = logging.getLogger(__name__)


class HostAddresses(NamedTuple):
    """IPv6 and IPv4 addresses, the preferred one first, and how long they hold, in seconds."""

    addresses: tuple[str, ...]
    ttl: float


class Unresolved(OSError):
    """A host name without an address; the text names the host. ``keep``: seconds for which it need
    not be asked for again."""

    def __init__(self, text: str, keep: float = FAILURE_SECONDS) -> None:
        super().__init__(text)
        self.keep = keep


class HostKnowledge(NamedTuple):
    """The state of a host until ``until`` (time.monotonic()): ``addresses``, or the ``problem``.
    ``own``: its name is its address, as for an IP address or localhost."""

    addresses: tuple[str, ...]
    until: float
    problem: str = ""
    own: bool = False


class Names:
    """Belongs to the process and the event loop of its first question; ``known`` may be called in
    any thread."""

    def __init__(self, hook: Hook | None = None, servers: Sequence[str] = ()) -> None:
        """``servers``: name servers (``address`` or ``address:port``) in place of those of
        /etc/resolv.conf."""
        self._hook = hook
        self._servers = servers
        self._known: BoundedDict[str, HostKnowledge] = BoundedDict(MAX_NAMES)
        self._asking: dict[str, asyncio.Task[HostKnowledge]] = {}
        self._resolver: aiodns.DNSResolver | None = None

    def known(self, host: str) -> HostKnowledge | None:
        """The state of a host, or None if it must be asked for."""
        known = self._known.get(host)
        return known if known is not None and known.until > monotonic() else None

    async def resolve(self, host: str, seconds: float = QUESTION_TIMEOUT) -> HostKnowledge:
        """The addresses of a host. One question serves all callers that wait for it, and continues
        when they give up. Raises Unresolved, after ``seconds`` at the latest."""
        known = self.known(host)
        if known is None and (addresses := _own_addresses(host)):
            known = self._keep(host, HostKnowledge(addresses, math.inf, own=True))
        if known is None:
            task = self._asking.get(host)
            if task is None:
                task = self._asking[host] = asyncio.create_task(self._look_up(host))
                task.add_done_callback(lambda done: self._asking.pop(host, None))
            done, _ = await asyncio.wait([task], timeout=seconds)
            if not done or task.cancelled():
                raise Unresolved(_late(host, seconds))
            known = task.result()
        if known.problem:
            raise Unresolved(known.problem)
        return known

    def resolve_in_thread(
        self, host: str, loop: asyncio.AbstractEventLoop, seconds: float = QUESTION_TIMEOUT
    ) -> tuple[str, ...]:
        """The same, in a thread that may wait; ``loop`` owns these names. Raises OSError."""
        known = self.known(host)
        if known is None or known.problem:
            asking = asyncio.run_coroutine_threadsafe(self.resolve(host, seconds), loop)
            known = asking.result(seconds + 1)
        return known.addresses

    async def close(self) -> None:
        """Ends all questions."""
        asking = [*self._asking.values()]
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        if self._resolver is not None:
            await self._resolver.close()
            self._resolver = None

    async def _look_up(self, host: str) -> HostKnowledge:
        try:
            async with asyncio.timeout(QUESTION_TIMEOUT):
                found = await self._by_hook(host) if self._hook is not None else None
                if found is None:
                    found = await self._by_servers(host)
        except TimeoutError:
            return self._failed(host, Unresolved(_late(host, QUESTION_TIMEOUT)))
        except Unresolved as error:
            return self._failed(host, error)
        ttl = min(max(found.ttl, LEAST_TTL), LONGEST_TTL)
        return self._keep(host, HostKnowledge(found.addresses, monotonic() + ttl))

    async def _by_hook(self, host: str) -> HostAddresses | None:
        assert self._hook is not None
        try:
            given = await self._hook(host)
            return None if given is None else _checked(given)
        except Exception as error:
            log.warning("CRAWLFRAME_RESOLVER, for %s: %r", host, error)
            raise Unresolved(f"{host}: CRAWLFRAME_RESOLVER: {error!r}") from None

    async def _by_servers(self, host: str) -> HostAddresses:
        """Asks /etc/hosts, then the name servers, with c-ares: any number of questions wait at
        once, so a server that does not reply holds up no other name. Raises Unresolved."""
        if self._resolver is None:
            loop = asyncio.get_running_loop()
            servers = self._servers or None
            self._resolver = aiodns.DNSResolver(servers, loop, flags=_FLAGS, tries=TRIES)
        try:
            result = await self._resolver.getaddrinfo(host, type=socket.SOCK_STREAM)
        except aiodns.error.DNSError as error:
            code = pycares.errno.errorcode.get(error.args[0], str(error.args[0]))
            text = _PROBLEMS.get(code, f"{error.args[-1]} ({code})")
            keep = GONE_SECONDS if code in _LASTING else FAILURE_SECONDS
            raise Unresolved(f"{host}: {text}", keep) from None
        addresses = dict.fromkeys(node.addr[0].decode() for node in result.nodes)
        ttl = min([node.ttl for node in result.nodes] + [name.ttl for name in result.cnames])
        return HostAddresses(tuple(addresses), ttl)

    def _failed(self, host: str, error: Unresolved) -> HostKnowledge:
        return self._keep(host, HostKnowledge((), monotonic() + error.keep, str(error)))

    def _keep(self, host: str, known: HostKnowledge) -> HostKnowledge:
        self._known[host] = known
        return known


def load_hook(path: str) -> Hook | None:
    """The function of CRAWLFRAME_RESOLVER, ``module:function``; None for "". Raises ConfigError."""
    if not path:
        return None
    module, _, name = path.partition(":")
    try:
        hook = getattr(importlib.import_module(module), name)
    except Exception as error:  # the module may raise anything
        raise ConfigError(f"CRAWLFRAME_RESOLVER={path!r} cannot be imported: {error!r}") from error
    if not inspect.iscoroutinefunction(hook):
        raise ConfigError(f"CRAWLFRAME_RESOLVER={path!r} must be an async function resolve(host)")
    return hook  # type: ignore[no-any-return]


def _own_addresses(host: str) -> tuple[str, ...]:
    """Addresses of an IP address, and of localhost; none for other names."""
    if is_address(host):
        return (host.strip("[]"),)
    return LOOPBACK if f".{host.rstrip('.')}".endswith(".localhost") else ()


def _checked(given: tuple[Iterable[str], float]) -> HostAddresses:
    """Checks the result of a project's function. Raises ValueError and TypeError."""
    addresses, ttl = given
    if isinstance(addresses, str):
        raise TypeError(f"addresses must be a list, not {addresses!r}")
    found = HostAddresses(tuple(str(ipaddress.ip_address(one)) for one in addresses), float(ttl))
    if not found.addresses:
        raise ValueError("no addresses; raise an error to say that the host has none")
    if not found.ttl >= 0:
        raise ValueError(f"the TTL must be seconds, 0 or more, not {ttl!r}")
    return found


def _late(host: str, seconds: float) -> str:
    return f"{host}: no addresses within {seconds:.3g} s"


class Pin:
    """The addresses of host and port of a URL. ``own``: it needs no resolver. ``told``: when
    libcurl received the addresses (time.monotonic())."""

    __slots__ = ("line", "own", "told", "until")

    def __init__(self, known: HostKnowledge, host: str, port: int) -> None:
        self.own = known.own
        self.until = known.until
        self.told = 0.0
        self.line = f"+{host}:{port}:{','.join(known.addresses)}"

    def due(self, always: bool) -> bool:
        """Whether libcurl must receive the addresses; ``always``: even if it did a short time
        ago."""
        return not self.own and (always or self.told + REFRESH_SECONDS < monotonic())


class AddressPins:
    """The pins of one downloader."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self._pins: BoundedDict[str, Pin] = BoundedDict(MAX_NAMES)  # by origin

    def get(self, url: str) -> Pin | None:
        """The pin for a normalised URL, or None if its host must be resolved."""
        pin = self._pins.get(url[: url.find("/", 8)])
        return pin if pin is not None and pin.until > monotonic() else None

    async def find(self, url: str, seconds: float) -> Pin:
        """As ``get``, after ``seconds`` at the latest. Raises Unresolved."""
        host, port = place_of(url)
        known = await self.names.resolve(host, seconds)
        origin = url[: url.find("/", 8)]
        pin = self._pins[origin] = Pin(known, host, port)
        return pin


def place_of(url: str) -> tuple[str, int]:
    """Host and port of a normalised URL."""
    place = host_of(url)
    host, _, port = place.rpartition(":")
    if port.isdigit() and host:
        return host, int(port)
    return place, 443 if url.startswith("https:") else 80
