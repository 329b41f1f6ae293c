"""``manage.py demosite``: serves the demo site until Ctrl-C."""

from __future__ import annotations

import contextlib
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from crawlframe.program import command
from crawlservice.demosite.errors import DemoSiteError
from crawlservice.demosite.options import add_options, serve_options


class Command(BaseCommand):
    help = f"Serves a deterministic house-listing site to crawl: {command('crawl listings')}"
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        add_options(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            try:
                serve_options(options)
            except (DemoSiteError, ValueError) as error:
                raise CommandError(str(error)) from None
