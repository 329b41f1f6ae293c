"""DjangoServices: what the engine needs, made of Django, Redis and the spiders package."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from django.db import DatabaseError, connections

from crawlframe.conf import Settings
from crawlframe.frontier import Frontier
from crawlframe.ledger import LedgerAway
from crawlframe.node.channel import Channel
from crawlframe.node.code import Code
from crawlframe.registry import Registry
from crawlservice.models import Generation
from crawlservice.redis import use
from crawlservice.steward import Steward
from crawlservice.store import DjangoLedger
from crawlservice.watchdog import Watchdog


class DjangoServices:
    """Of one node. ``redis`` is a URL, ``code`` where the spiders and this framework lie."""

    def __init__(self, settings: Settings, redis: str, code: Code) -> None:
        self._settings = settings
        self._redis = redis
        self._code = code

    def frontier(self) -> Frontier:
        return Frontier.connect(self._redis, self._settings)

    def ledger(self) -> DjangoLedger:
        return DjangoLedger(self._watchdog().start())

    def code(self) -> Code:
        return self._code

    def registry(
        self, skip: Mapping[str, str], limit: float, loading: Callable[[str], None]
    ) -> Registry:
        try:
            return Registry.load(
                self._settings.spiders,
                skip=skip,
                limit=limit,
                loading=loading,
                bytecode=self._settings.var_dir / "bytecode",
            )
        finally:
            connections.close_all()  # a spider's module may have used a model

    def begin_generation(self, node: str, machine: str, pid: int) -> int:
        try:
            with self._watchdog():  # its thread ends with it: the master forks without threads
                return Generation.objects.create(node=node, machine=machine, pid=pid).pk
        except DatabaseError as error:
            raise LedgerAway(str(error)) from None
        finally:
            connections.close_all()  # the master forks: no connection may be open then

    def _watchdog(self) -> Watchdog:
        return Watchdog(self._settings.database_timeout)

    def run_steward(self, channel: Channel) -> None:
        frontier = Frontier.connect(self._redis, self._settings, follows=True)
        use(frontier)  # schedules submit
        Steward(self._settings, frontier).live(channel)
