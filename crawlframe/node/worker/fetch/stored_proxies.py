"""StoredProxies: the pool of the database in a worker, which follows its changes."""

from __future__ import annotations

import logging
import random
import time

from crawlframe.errors import ConfigError
from crawlframe.node.worker.commit.committer import Committer
from crawlframe.node.worker.fetch.proxies import ProxySource
from crawlframe.node.worker.task.task_source import on_commit_thread
from crawlframe.proxies.proxy import ChosenProxy
from crawlframe.proxies.selector import matches
from crawlframe.run.ledger import AccessLedger, LedgerAway, LedgerRefused, StoredProxy

log = logging.getLogger(__name__)

READ_SECONDS = 5.0  # seconds between two reads of a pool that is used
ASK_AGAIN = 1.0  # seconds until it is read again for a proxy that it does not have


class StoredProxies(ProxySource):
    """Reads the database on the connection of the commit thread, at first use and then again and
    again."""

    def __init__(self, committer: Committer, ledger: AccessLedger) -> None:
        self._committer = committer
        self._ledger = ledger
        self._known: dict[int, StoredProxy] = {}
        self._read_at = float("-inf")
        self._asked = False

    async def find(self, proxy: int) -> ChosenProxy | None:
        """Raises ConfigError if this node cannot read the credentials of the pool."""
        if proxy not in self._known and time.monotonic() - self._read_at > ASK_AGAIN:
            await self._load()
        found = self._known.get(proxy)
        return None if found is None else found.proxy

    async def any_of(self, choice: str) -> ChosenProxy | None:
        """Raises ConfigError as ``find`` does."""
        if not self._known and time.monotonic() - self._read_at > ASK_AGAIN:
            await self._load()
        fits = [
            one for one in self._known.values() if matches(choice, one.tier, one.country, one.tags)
        ]
        tier = min((one.tier for one in fits), default=0)
        cheapest = [one.proxy for one in fits if one.tier == tier]
        return random.choice(cheapest) if cheapest else None

    def tick(self) -> None:
        """Asks for changes when it is time."""
        due = self._known and time.monotonic() - self._read_at >= READ_SECONDS
        if due and not self._asked:
            self._asked = True
            self._committer.call(self._refresh)

    async def _load(self) -> None:
        self._take(await on_commit_thread(self._committer, self._ledger.proxies))

    def _refresh(self) -> None:
        """Reads the proxies, on the commit thread."""
        try:
            self._take(self._ledger.proxies())
        except (LedgerAway, LedgerRefused, ConfigError) as error:
            log.warning("the pool of proxies stays as it was: %s", error)
            self._read_at = time.monotonic()
        self._asked = False

    def _take(self, proxies: list[StoredProxy]) -> None:
        self._known = {one.proxy.id: one for one in proxies}  # replaced whole: two threads use it
        self._read_at = time.monotonic()
