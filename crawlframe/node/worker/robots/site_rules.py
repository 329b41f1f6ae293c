"""SiteRules: the rules that the files of origins state, such as robots.txt. Each file is read by
one worker of the cluster, in the slot of the request that came first, which then goes back to the
head of its lane, because its page has to pay the host's delay."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import ClassVar, Generic, NamedTuple, TypeVar

from crawlframe.base.urls import host_of
from crawlframe.errors import ProxyFailed
from crawlframe.fetch.journey.send_time import SendTime
from crawlframe.node.worker.robots.loading_cache import LoadedValue, LoadingCache
from crawlframe.node.worker.robots.site_files import (
    LEASE,
    RETRY_SECONDS,
    Elsewhere,
    SiteFiles,
    Wait,
    key_of,
)
from crawlframe.node.worker.robots.store import RobotsStore
from crawlframe.proxies.proxy import ChosenProxy
from crawlframe.request.record import Errand
from crawlframe.robots.rules import origin_of
from crawlframe.robots.state import MAX_ORIGIN, RobotsState

MAX_CACHED = 2_000  # files of one kind that a worker keeps, parsed
RECHECK = 600.0  # seconds after which a worker looks again at what the database has

K = TypeVar("K")
V = TypeVar("V")


class Reader(NamedTuple):
    """How a request reads a file: ``user_agent`` and the downloader ``via`` are its own;
    ``send_time``, ``proxy`` and ``in_place`` as in ``SiteFiles.read``."""

    user_agent: str
    via: str
    send_time: SendTime | None = None
    proxy: ChosenProxy | None = None
    in_place: bool = False


class SiteRules(ABC, Generic[K, V]):
    """The files of one kind of all origins, for one worker. Use it from one event loop. ``clock``
    returns seconds."""

    path: ClassVar[str]

    def __init__(
        self, store: RobotsStore, files: SiteFiles, clock: Callable[[], float], unlimited: V
    ) -> None:
        """``unlimited``: the rules of an origin that cannot exist."""
        self.store = store
        self.files = files
        self._unlimited = unlimited
        self._cache: LoadingCache[K, V] = LoadingCache(MAX_CACHED, clock)

    async def rules_for(self, url: str, reader: Reader) -> V:
        """Returns the rules for a URL. Raises Wait while they are unknown; Elsewhere and
        ProxyFailed as ``SiteFiles.read`` does, to the request that reads the file; PrivateAddress
        and BadUrl if no request may be sent there."""
        origin = origin_of(url)
        key = self._key(origin, reader)
        if (known := self._cache.find(key)) is not None:
            return known
        file = origin + self.path
        if len(key_of(file)) > MAX_ORIGIN:  # no such host exists
            return self._unlimited
        errand = Errand(file, file, 0, reader.user_agent, reader.via, host_of(url))
        first = not self._cache.is_loading(key)
        try:
            return await self._cache.get(key, partial(self._load, url, errand, reader))
        except Elsewhere:
            if first:
                raise
            raise Wait(url) from None
        except ProxyFailed:  # the others have proxies of their own
            if first:
                raise
            raise Wait(url, RETRY_SECONDS, shortly=True) from None

    async def _load(self, url: str, errand: Errand, reader: Reader) -> LoadedValue[V]:
        turn = await self.store.turn(key_of(errand.file), LEASE)
        if turn.mine:
            turn = await self.files.read(
                errand, turn, reader.send_time, reader.proxy, in_place=reader.in_place
            )
        state, now, fresh = turn
        if not state.is_known(now):
            raise await self._unknown(url, state, now)
        return await self._known(url, reader, state, now, fresh)

    @abstractmethod
    def _key(self, origin: str, reader: Reader) -> K:
        """The key of the rules that this reader gets from an origin."""

    @abstractmethod
    async def _known(
        self, url: str, reader: Reader, state: RobotsState, now: float, fresh: bool
    ) -> LoadedValue[V]:
        """The rules of a file that was read; ``fresh``: in the slot of this request."""

    async def _unknown(self, url: str, state: RobotsState, now: float) -> BaseException:
        """Returns what to raise while the file is not known: another worker reads it."""
        return Wait(url, RETRY_SECONDS, shortly=True)
