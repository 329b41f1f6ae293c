"""Chores of the pool of proxies."""

from __future__ import annotations

from crawlframe.conf import Settings
from crawlservice.chores.chore import Chore, ChoreContext
from crawlservice.chores.threads import ChoreThread, Work
from crawlservice.connections.contained import contained
from crawlservice.models import Proxy, ProxySource
from crawlservice.proxies import check, runs, sources
from crawlservice.proxies.pool import publish

PAUSE = 1.0  # seconds between two looks for due checks


class ProxyChecks(Work):
    """Checks proxies and reads the lists, in a thread of its own."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def step(self) -> float:
        """Raises django.db.Error."""
        sources.read_due(self._settings)
        rows = check.due()
        if rows:
            check.check_all(self._settings, rows)
        return 0.0 if rows else PAUSE


class ProxyChores:
    """Proxy chores of one steward."""

    def __init__(self, steward: ChoreContext) -> None:
        self._frontier = steward.frontier
        self._checks = ChoreThread("proxy checks", lambda: ProxyChecks(steward.settings))

    def tick(self) -> None:
        """Notes which proxies have failed, publishes the pool, and lets the others be checked.
        Raises django.db.Error, FrontierError and redis.RedisError."""
        if out := self._frontier.proxies.out():
            rows = [*Proxy.objects.filter(pk__in=out, state=Proxy.State.WORKING)]
            uses = self._frontier.proxies.use([row.pk for row in rows])
            for row in rows:
                with contained(f"proxy {row.pk}"):
                    check.take_out(row, uses[row.pk])
        with contained("the pool of proxies"):
            publish(self._frontier)
        runs.judge_ended()
        if sources.any_due() or check.waiting().exists():
            self._checks.ensure_running()
        runs.start_due()

    def stop(self) -> None:
        self._checks.stop()


CHORES = (
    Chore("proxies", ProxyChores, used=lambda: [Proxy.objects.all(), ProxySource.objects.all()]),
)
