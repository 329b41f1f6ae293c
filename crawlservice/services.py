"""DjangoServices: the services of the engine, made of Django, Redis and the spiders package."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

from django.db import DatabaseError, connections

from crawlframe.code.registry import Registry
from crawlframe.conf import Settings
from crawlframe.errors import ConfigError
from crawlframe.fetch.names.resolver import load_hook
from crawlframe.frontier import Frontier
from crawlframe.load_spiders import load_spiders, sources_of
from crawlframe.node.code import Code
from crawlframe.node.messages import FromChildLine
from crawlframe.node.services import Services
from crawlframe.recorded.check import run_checker
from crawlframe.run.ledger import LedgerAway
from crawlservice.connections import installation
from crawlservice.connections.frontier import use
from crawlservice.connections.read_only import read_only
from crawlservice.connections.watch import Watch, watch
from crawlservice.ledger.model_items import model_rows
from crawlservice.ledger.reconcile import replay
from crawlservice.ledger.recovery import uncounted
from crawlservice.ledger.store import DjangoLedger
from crawlservice.monitoring import lives
from crawlservice.pages import page_trial
from crawlservice.pages.to_try import tried_spiders

log = logging.getLogger(__name__)

ANSWER_SECONDS = 5.0  # seconds within which the database says which spiders have kept pages


class DjangoServices(Services):
    """The services of one node. ``redis`` is a URL, ``code`` where the spiders and this framework
    are. ``once``: the node ends when no task is left."""

    def __init__(self, settings: Settings, redis: str, code: Code, *, once: bool = False) -> None:
        self._settings = settings
        self._redis = redis
        self._code = code
        self._once = once
        self._installation = ""
        self._compared = False

    def frontier(self) -> Frontier:
        return Frontier.connect(self._redis, self._settings)

    def ledger(self) -> DjangoLedger:
        return DjangoLedger(self._watch().start())

    def code(self) -> Code:
        return self._code

    def registry(
        self, skip: Mapping[str, str], limit: float, loading: Callable[[str], None]
    ) -> Registry:
        try:
            return load_spiders(
                self._settings,
                skip=skip,
                limit=limit,
                loading=loading,
                bytecode=self._settings.var_dir / "bytecode",
                trace=not self._settings.scrapy,
            )
        finally:
            connections.close_all()  # a spider's module may have used a model

    def renew(self, registry: Registry, limit: float, loading: Callable[[str], None]) -> None:
        try:
            registry.renew(sources_of(self._settings), limit=limit, loading=loading)
        finally:
            connections.close_all()

    def with_pages(self, spiders: list[str] | None) -> list[str] | None:
        try:
            with watch(ANSWER_SECONDS):
                return tried_spiders(spiders)
        except DatabaseError as error:
            log.warning("it is unknown which spiders have kept pages: %s", error)
            return []
        finally:
            connections.close_all()

    def run_checker(
        self, registry: Registry, version: str, channel: FromChildLine, line: socket.socket | None
    ) -> None:
        def run_trial(number: str) -> None:
            frontier = self.frontier()
            order = frontier.trials.read(number)
            if order is not None and order.preview:
                from crawlservice.preview.orders import carry_out  # few are ordered

                carry_out(order.preview, self._settings.node)
            elif order is not None:
                page_trial.run(frontier, self._settings, registry, version, number, order.rid)

        if line is None:
            run_checker(self._settings, registry, channel, run_trial, guard=read_only)
            return
        from crawlservice.preview.on_node import node_preview  # few nodes preview

        preview = node_preview(self._settings, registry, version, line)
        verdict = preview.problems, preview.serve
        run_checker(self._settings, registry, channel, run_trial, *verdict, read_only)

    def unfit(self) -> str:
        try:
            load_hook(self._settings.resolver)
        except ConfigError as error:
            return str(error)
        finally:
            connections.close_all()
        return model_rows.misuse()

    def check_installation(self, frontier: Frontier) -> None:
        with self._database():
            self._installation = installation.check(frontier, self._installation)

    def check_key(self) -> str:
        """Why this node cannot read the secrets of webhooks; "" if it can, or if the database does
        not answer. Leaves no connection open."""
        try:
            with self._database():
                return installation.check_key()
        except LedgerAway:
            return ""

    def missing(self, frontier: Frontier) -> str:
        # Once: an era renewed since then has everything, whatever the numbers say.
        if self._compared or installation.living(frontier):
            return ""
        with self._database():
            found = uncounted(frontier)
        self._compared = True
        return found

    def begin_generation(
        self, node: str, machine: str, pid: int, beside: Collection[int] = ()
    ) -> int:
        with self._database():
            return lives.begin(node, machine, pid, once=self._once, beside=beside)

    def end_generation(self, generation: int) -> None:
        with self._database():
            lives.leave(generation)

    def lose_generation(self, generation: int, held: int) -> None:
        with self._database():
            lives.die(generation, held)

    def replay(self, frontier: Frontier, generation: int) -> int:
        with self._database():
            return replay(frontier, generation)

    def run_steward(self, channel: FromChildLine) -> None:
        # Imported here: no other process does chores.
        from crawlservice.steward.steward import Steward

        frontier = Frontier.connect(self._redis, self._settings, follows=True)
        use(frontier)  # schedules submit through it
        Steward(self._settings, frontier).run(channel)

    def _watch(self) -> Watch:
        return watch(self._settings.database_timeout)

    @contextmanager
    def _database(self) -> Iterator[None]:
        """A database for the master, which forks: leaves neither a thread nor a connection."""
        try:
            with self._watch():
                yield
        except DatabaseError as error:
            raise LedgerAway(str(error)) from None
        finally:
            connections.close_all()
