"""runcrawler: the composition root of a node. Settings and connections meet the engine here."""

from __future__ import annotations

import argparse
import socket
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.conf import settings as django_settings
from django.core.management.base import CommandParser
from django.db import DatabaseError, connections
from django.utils.autoreload import get_child_arguments

from crawlframe.base import logs
from crawlframe.base.program import ENTRY_POINT, command
from crawlframe.code.registry import find_package
from crawlframe.conf import Settings
from crawlframe.errors import ConfigError
from crawlframe.node.code import Code
from crawlframe.node.messages import from_master
from crawlframe.node.supervisor import reexec
from crawlframe.node.supervisor.git import Follower
from crawlframe.node.supervisor.master_processes import MasterProcesses

# Also for masters: a version in which it cannot be imported must be refused.
from crawlframe.node.supervisor.supervisor import Supervisor
from crawlservice import project
from crawlservice.cli.command import Command as BaseCommand
from crawlservice.cli.local_node import manage_command
from crawlservice.cli.resolver_check import check_resolver
from crawlservice.connections import other_databases
from crawlservice.connections.checks import check_redis, network_filesystem
from crawlservice.connections.database import check_models
from crawlservice.connections.frontier import redis_url
from crawlservice.identity import bot_keys

FOLLOW_EVERY = 10.0  # seconds between two pulls of the newest revision


def code_of(settings: Settings) -> Code:
    """Where the spiders and this framework are."""
    start = project.script() or Path(sys.argv[0]).absolute()
    return Code(find_package(settings.spiders) or start.parent / settings.spiders, start)


class Command(BaseCommand):
    help = "Runs a node: fetches requests of all tasks with worker processes until it is stopped."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--workers", type=int, help="worker processes (default: CPUs)")
        parser.add_argument("--concurrency", type=int, help="requests in flight per worker (64)")
        parser.add_argument("--node", help="name of this node in the cluster (default: host name)")
        parser.add_argument("--once", action="store_true", help="end when no task is left")
        parser.add_argument(
            "--reload", action="store_true", help="load changed code without losing anything"
        )
        parser.add_argument(
            "--follow",
            metavar="BRANCH",
            help="with --reload: bring this checkout to the newest revision of that branch, and "
            f"to those that `{command('rollout')}` announces",
        )
        parser.add_argument(
            "--follow-every",
            type=float,
            default=FOLLOW_EVERY,
            metavar="SECONDS",
            help=f"with --follow: time between two pulls (default: {FOLLOW_EVERY:.0f}); 0: only "
            f"what `{command('rollout')}` announces, for canaries",
        )
        # Between a supervisor and its masters.
        parser.add_argument("--supervised", type=int, help=argparse.SUPPRESS)
        # Not dest="stderr", which Django's own option has. Supervisors of older code pass --stderr.
        parser.add_argument("--log-fd", "--stderr", dest="log_fd", type=int, help=argparse.SUPPRESS)
        # A supervisor checks whether it could restart as a new one.
        parser.add_argument("--rehearse", action="store_true", help=argparse.SUPPRESS)

    def execute(self, *args: Any, **options: Any) -> str | None:
        # A new supervisor must not fail because of what its master can wait for.
        self.needs_database = not reexec.is_reexecuted()
        return super().execute(*args, **options)

    def handle(self, *args: Any, **options: Any) -> None:
        given = {name: options[name] for name in ("workers", "concurrency", "node")}
        settings = Settings.from_env(**given)
        settings = replace(settings, var_dir=django_settings.VAR_DIR)
        logs.configure(settings.log_level, settings.node)
        if not reexec.is_reexecuted():
            with suppress(DatabaseError):  # what a master waits for
                bot_keys.check()
        connections.close_all()
        supervised = options["supervised"]
        if supervised is None and not reexec.is_reexecuted() and not options["rehearse"]:
            check_resolver(settings)
        if options["follow"] is not None and not options["reload"]:
            raise ConfigError("--follow changes the code, which requires --reload")
        if options["reload"] and supervised is None:
            code = self._supervise(settings, options)
        else:
            code = self._work(settings, options)
        if code:
            raise SystemExit(code)

    def _supervise(self, settings: Settings, options: dict[str, Any]) -> int:
        code = code_of(settings)
        filesystem = next(filter(None, map(network_filesystem, code.trees)), "")
        if filesystem:
            self.stderr.write(
                f"note: the code lies on a network file system ({filesystem}), which reports no "
                "changes; it is checked five times a second"
            )
        follower = self._follower(code, options)
        redis_url()  # the embedded server belongs to this process, not to masters that come and go
        supervisor = Supervisor(
            settings,
            MasterProcesses(self._command()),
            code,
            polling=bool(filesystem),
            follower=follower,
            follow_every=options["follow_every"],
        )
        return 0 if options["rehearse"] else supervisor.run()

    def _command(self) -> list[str]:
        """The command that this process was started with. The path of the program is absolute,
        because the working directory may have changed by then."""
        script = sys.argv[0]
        if Path(script).name == ENTRY_POINT:
            return [*manage_command(), *sys.argv[1:]]
        return [
            str(Path(script).absolute()) if word == script else word
            for word in get_child_arguments()
        ]

    def _follower(self, code: Code, options: dict[str, Any]) -> Follower | None:
        if options["follow"] is None:
            return None
        if code.checkout is None:
            raise ConfigError(
                f"--follow {options['follow']}: {code.spiders} is in no git checkout; clone the "
                "repository of the spiders, or leave --follow out"
            )
        if options["follow_every"] < 0:
            raise ConfigError("--follow-every takes seconds, 0 or more")
        return Follower.of(code.checkout, options["follow"], check=not reexec.is_reexecuted())

    def _work(self, settings: Settings, options: dict[str, Any]) -> int:
        if django_settings.APPS:
            check_models()
            for warning in other_databases.prepare():
                self.stderr.write(f"warning: {warning}")
        url = redis_url()
        # A supervisor starts without these imports.
        from crawlframe.node.master.master import Master
        from crawlframe.node.master.supervisor_link import SupervisorLink, release_output
        from crawlservice.services import DjangoServices

        services = DjangoServices(settings, url, code_of(settings), once=options["once"])
        frontier = services.frontier()
        key = [services.check_key()]
        for warning in filter(
            None, [*check_redis(frontier.store.redis, settings.key_prefix), *key]
        ):
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
