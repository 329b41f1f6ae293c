"""up: the web, one node and the embedded Redis, until Ctrl-C."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import connection

from crawlframe.errors import ConfigError
from crawlservice.accounts import setup_link
from crawlservice.accounts.journal import record
from crawlservice.cli.command import ServiceCommand
from crawlservice.cli.process_group import ProcessGroup
from crawlservice.connections.frontier import frontier
from crawlservice.connections.redis_checks import check_redis
from crawlservice.project import manage_command
from crawlservice.security import exposure

DEFAULT_BIND = "127.0.0.1:8000"
STOP_MARGIN = 10.0  # seconds beyond the grace time before a process is killed


class Command(ServiceCommand):
    help = "Keeps the web, one node and the embedded Redis running until Ctrl-C."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--bind", default=bound(), help="host:port (%(default)s)")
        parser.add_argument("--workers", type=int, help="of the node; by default one per CPU")
        parser.add_argument(
            "--no-reload", action="store_true", help="the node keeps the code it was started with"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        for warning in check_redis(frontier().store.redis, settings.CRAWLFRAME.key_prefix):
            self.stderr.write(f"warning: {warning}")
        node = [*manage_command(), "runcrawler"]
        if not options["no_reload"]:
            node.append("--reload")
        if options["workers"] is not None:
            node += ["--workers", str(options["workers"])]
        with listen(options["bind"]) as listener:
            if found := exposure.refusal([str(listener.getsockname()[0])]):
                raise ConfigError(found)
            self._print_address(listener)
            connection.close()
            stop_timeout = settings.CRAWLFRAME.grace + STOP_MARGIN
            with ProcessGroup(sys.stdout.buffer, stop_timeout) as group:
                group.start("web", _web(listener), (listener.fileno(),))
                group.start("node", node)
                ended = group.run()
        if ended is not None:
            raise CommandError(f"{ended.name} {ended.how_it_ended()}; everything was stopped")

    def _print_address(self, listener: socket.socket) -> None:
        host, port = listener.getsockname()[:2]
        address = ipaddress.ip_address(host)
        shown = "127.0.0.1" if address.is_unspecified else host
        url = f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/"
        self.stdout.write(url)
        if not address.is_loopback and not settings.EXTRA_HOSTS:
            self.stderr.write(
                "warning: only requests to localhost are answered; name the hosts this server is "
                "reached by in CRAWLFRAME_ALLOWED_HOSTS"
            )
        if setup_link.is_needed():
            record("make setup link", command=True)
            self.stdout.write(f"Create the first administrator: {url}{setup_link.make()}")
        self.stdout.write("Ctrl-C stops everything.")
        self.stdout.flush()


def bound() -> str:
    """The host and port at which the web of this machine listens, unless ``up`` gets others."""
    return os.environ.get("CRAWLFRAME_BIND", "").strip() or DEFAULT_BIND


def listen(bind: str) -> socket.socket:
    """A listening socket for ``host:port``. Raises ConfigError."""
    host, _, port = bind.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"--bind {bind!r} is not host:port; give for instance {DEFAULT_BIND}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, int(port)), family=family, backlog=256)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            reason = f"port {port} is in use; stop that program, or choose another"
        elif error.errno == errno.EACCES:
            reason = f"port {port} needs more rights; choose one above 1023"
        else:
            reason = f"{host} is not an address of this machine; give one of its addresses"
        raise ConfigError(f"{reason}, for instance with --bind {DEFAULT_BIND[:-4]}8001") from None


def _web(listener: socket.socket) -> list[str]:
    config = str(settings.PACKAGE / "web" / "server.py")
    project = str(settings.BASE_DIR)
    where = ["--chdir", project, "--pythonpath", project, "--bind", f"fd://{listener.fileno()}"]
    return [sys.executable, "-P", "-m", "gunicorn", "-c", config, *where]
