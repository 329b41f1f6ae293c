"""check: the spiders, then Django's checks of settings, models and admin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.core.management.commands import check

from crawlservice.cli.command import ServiceCommand
from crawlservice.cli.spider_check import SpiderCheck


class Command(ServiceCommand, check.Command):
    help = (
        "Imports all spiders and shows their arguments and settings; then runs the checks of "
        "Django. Exits with 1 if a spider does not load, or a check fails."
    )
    needs_database = False

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--scrapy", type=Path, metavar="PATH",
            help="in place of all this: the spiders of a Scrapy project, the directory with "
            "scrapy.cfg: whether each runs, its ignored parts, and parts that cannot work",
        )  # fmt: skip

    def handle(self, *labels: Any, **options: Any) -> None:
        if options["scrapy"]:
            SpiderCheck(self).scrapy(options["scrapy"])
            return
        broken = [] if options["list_tags"] else SpiderCheck(self).all()
        super().handle(*labels, **options)
        if broken:
            raise CommandError(f"broken: {', '.join(broken)}")
