"""runcrawler: the composition root of a node. Settings and connections meet the engine here."""

from __future__ import annotations

import multiprocessing
import socket
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

from django.apps import apps
from django.conf import settings as django_settings
from django.core.management.base import CommandParser
from django.db import DatabaseError, connections

from crawlframe.base import logs
from crawlframe.conf import Settings
from crawlframe.errors import ConfigError
from crawlframe.node.master.master import Master
from crawlframe.node.master.supervisor_link import SupervisorLink, release_output
from crawlframe.node.supervisor_messages import from_master
from crawlservice.cli.command import ServiceCommand
from crawlservice.cli.supervise import add_arguments, code_of, supervise
from crawlservice.connections import other_databases
from crawlservice.connections.frontier import redis_url
from crawlservice.connections.redis_checks import check_redis
from crawlservice.identity import bot_keys
from crawlservice.services import DjangoServices


class Command(ServiceCommand):
    help = "Runs a node: fetches requests of all tasks with worker processes until it is stopped."

    def add_arguments(self, parser: CommandParser) -> None:
        add_arguments(parser)

    def execute(self, *args: Any, **options: Any) -> str | None:
        # A supervisor leaves it to its masters, which can wait for it.
        self.needs_database = options["supervised"] is not None or not options["reload"]
        return super().execute(*args, **options)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["follow"] is not None and not options["reload"]:
            raise ConfigError("--follow changes the code, which requires --reload")
        work = self._work if self.needs_database else supervise
        if code := work(options):
            raise SystemExit(code)

    def _work(self, options: dict[str, Any]) -> int:
        given = {name: options[name] for name in ("workers", "concurrency", "node")}
        settings = Settings.from_env(**given)
        reloads = options["supervised"] is not None
        settings = replace(
            settings, var_dir=django_settings.VAR_DIR, preview=preview_of(settings, reloads)
        )
        logs.configure(settings.log_level, settings.node)
        with suppress(DatabaseError):  # a master waits for the database itself
            bot_keys.check()
        connections.close_all()
        if options["supervised"] is None or options["first"]:
            check_resolver(settings)
        if django_settings.APPS:
            other_databases.check_models()
            for warning in other_databases.prepare():
                self.stderr.write(f"warning: {warning}")
        url = redis_url()
        for model in apps.get_models():  # kept by Django, once for all processes of the node
            _ = model._meta.related_objects
        services = DjangoServices(settings, url, code_of(settings), once=options["once"])
        frontier = services.frontier()
        warnings = [*check_redis(frontier.store.redis, settings.key_prefix), services.check_key()]
        for warning in filter(None, warnings):
            self.stderr.write(f"warning: {warning}")
        frontier.store.redis.close()
        link = None
        if options["supervised"] is not None:
            try:
                line = socket.socket(fileno=options["supervised"])
            except OSError:
                raise ConfigError("--supervised is for masters of runcrawler --reload") from None
            line.set_inheritable(False)
            link = SupervisorLink(from_master(line))
        if options["log_fd"] is not None:
            release_output(options["log_fd"])
        return Master(settings, services, once=options["once"], link=link).run()


def preview_of(settings: Settings, reloads: bool) -> str:
    """CRAWLFRAME_PREVIEW. By default a node that reloads asks in production: where a server of
    Redis was set up, without CRAWLFRAME_DEBUG."""
    is_production = bool(django_settings.REDIS_URL) and not django_settings.DEBUG
    return settings.preview or ("ask" if reloads and is_production else "off")


def check_resolver(settings: Settings) -> None:
    """Raises ConfigError if it cannot be imported. That is tried in a fork, because this process
    must not import the code of spiders."""
    if not settings.resolver:
        return
    context = multiprocessing.get_context("fork")
    near, far = context.Pipe(duplex=False)
    process = context.Process(target=_try, args=(settings.resolver, far))
    process.start()
    far.close()
    try:
        if near.poll(settings.load_timeout):
            problem = near.recv()
        else:
            problem = f"its import takes more than {settings.load_timeout:g} s"
    except EOFError:
        problem = "the process that imports it died"
    finally:
        process.kill()
        process.join()
        near.close()
    if problem:
        name = f"CRAWLFRAME_RESOLVER={settings.resolver!r}"
        raise ConfigError(
            f"{problem if problem.startswith(name) else f'{name}: {problem}'}; correct the module, "
            "name another function as module:function, or leave the setting out"
        )


def _try(resolver: str, line: Connection) -> None:
    from crawlframe.fetch.names.resolver import load_hook  # few nodes have one

    try:
        load_hook(resolver)
    except ConfigError as error:
        line.send(str(error))
    else:
        line.send("")
