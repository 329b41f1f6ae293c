"""setuplink: prints the one-time link to the page that creates the first administrator."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from crawlframe.base.program import command
from crawlservice.accounts import setup_link
from crawlservice.accounts.journal import record
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.management.commands.up import DEFAULT_BIND


class Command(ServiceCommand):
    help = (
        "Prints a link to the page on which the first administrator chooses name and password. It "
        "works once, for 24 hours, and only while there is no administrator."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        origins = [*settings.CSRF_TRUSTED_ORIGINS, f"http://{_bound()}"]
        parser.add_argument(
            "--url", default=origins[0], help="where browsers reach the web (%(default)s)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not setup_link.is_needed():
            raise CommandError(
                "there is an administrator already, who can add accounts; for a forgotten "
                f"password: {command('changepassword NAME')}"
            )
        record("make setup link", command=True)
        self.stdout.write(f"{options['url'].rstrip('/')}/{setup_link.make()}")


def _bound() -> str:
    """Host and port at which the web of this machine listens."""
    host, _, port = (os.environ.get("CRAWLFRAME_BIND", "").strip() or DEFAULT_BIND).rpartition(":")
    return f"{'127.0.0.1' if host in ('', '0.0.0.0', '[::]') else host}:{port}"
