"""runcrawler: the composition root of a node. Settings and connections meet the engine here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.conf import settings as django_settings
from django.core.management.base import CommandParser
from django.db import DatabaseError, connections

from crawlframe import logs
from crawlframe.conf import Settings
from crawlframe.frontier import Frontier
from crawlframe.ledger import LedgerAway
from crawlframe.node.channel import Channel
from crawlframe.node.master import Master
from crawlframe.registry import Registry
from crawlservice.checks import check_redis
from crawlservice.models import Generation
from crawlservice.redis import redis_url
from crawlservice.steward import Steward
from crawlservice.store import DjangoLedger
from crawlservice.terminal import Command as BaseCommand


class DjangoServices:
    """What the engine needs, made of Django, Redis and the spiders package."""

    def __init__(self, settings: Settings, redis: str) -> None:
        self._settings = settings
        self._redis = redis

    def frontier(self) -> Frontier:
        return Frontier.connect(self._redis, self._settings)

    def ledger(self) -> DjangoLedger:
        return DjangoLedger()

    def registry(self) -> Registry:
        return Registry.load(self._settings.spiders)

    def begin_generation(self, node: str, machine: str, pid: int) -> int:
        try:
            return Generation.objects.create(node=node, machine=machine, pid=pid).pk
        except DatabaseError as error:
            raise LedgerAway(str(error)) from None
        finally:
            connections.close_all()  # the master forks: no connection may be open then

    def run_steward(self, channel: Channel) -> None:
        Steward(self._settings, self.frontier()).live(channel)


class Command(BaseCommand):
    help = "Runs a node: fetches requests of all tasks with worker processes until told to stop."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--workers", type=int, help="worker processes (default: CPUs)")
        parser.add_argument("--concurrency", type=int, help="requests in flight per worker (64)")
        parser.add_argument("--node", help="name of this node in the cluster (default: host name)")
        parser.add_argument("--once", action="store_true", help="end when no task is left")

    def handle(self, *args: Any, **options: Any) -> None:
        given = {name: options[name] for name in ("workers", "concurrency", "node")}
        settings = Settings.from_env(**given)
        settings = replace(settings, var_dir=django_settings.VAR_DIR)
        logs.configure(settings.log_level, settings.node)
        connections.close_all()
        url = redis_url()
        services = DjangoServices(settings, url)
        frontier = services.frontier()
        for warning in check_redis(frontier.redis):
            self.stderr.write(f"warning: {warning}")
        frontier.redis.close()
        code = Master(settings, services, once=options["once"]).run()
        if code:
            raise SystemExit(code)
