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
from collections.abc import Awaitable, Callable, Iterable, Sequence
from time import monotonic

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.base.urls import is_address
from crawlframe.errors import ConfigError
from crawlframe.fetch.names.name_servers import HostAddresses, NameServers, Unresolved

LEAST_TTL = 1.0  # seconds: with a TTL of 0, every request would ask
LONGEST_TTL = 86400.0
QUESTION_TIMEOUT = 15.0  # seconds that one question may take
MAX_NAMES = 10_000  # remembered by a worker
LOOPBACK = ("::1", "127.0.0.1")  # of localhost and the names below it, by RFC 6761

Hook = Callable[[str], Awaitable[tuple[Iterable[str], float] | None]]

log = logging.getLogger(__name__)


class HostKnowledge:
    """The state of a host until ``until`` (time.monotonic()): ``addresses``, or the ``problem``.
    ``own``: its name is its address, as for an IP address or localhost."""

    __slots__ = ("addresses", "own", "problem", "until")

    def __init__(
        self, addresses: tuple[str, ...], until: float, problem: str = "", own: bool = False
    ) -> None:
        self.addresses = addresses
        self.until = until
        self.problem = problem
        self.own = own


class Names:
    """Belongs to the process and the event loop of its first question; ``known`` may be called in
    any thread."""

    def __init__(self, hook: Hook | None = None, servers: Sequence[str] = ()) -> None:
        """``servers``: name servers other than the machine's, ``address`` or ``address:port``."""
        self._hook = hook
        self._servers = servers
        self._known: BoundedDict[str, HostKnowledge] = BoundedDict(MAX_NAMES)
        self._asking: dict[str, asyncio.Task[HostKnowledge]] = {}
        self._name_servers: NameServers | None = None

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
            known = await self._ask(host, seconds)
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
        if self._name_servers is not None:
            await self._name_servers.close()
            self._name_servers = None

    async def _ask(self, host: str, seconds: float) -> HostKnowledge:
        task = self._asking.get(host)
        if task is None:
            task = self._asking[host] = asyncio.create_task(self._look_up(host))
            task.add_done_callback(lambda done: self._asking.pop(host, None))
        done, _ = await asyncio.wait([task], timeout=seconds)
        if not done or task.cancelled():
            raise Unresolved(_late(host, seconds))
        return task.result()

    async def _look_up(self, host: str) -> HostKnowledge:
        try:
            async with asyncio.timeout(QUESTION_TIMEOUT):
                found = await self._by_hook(host) if self._hook is not None else None
                if found is None:
                    if self._name_servers is None:
                        self._name_servers = NameServers(self._servers)
                    found = await self._name_servers.addresses_of(host)
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
