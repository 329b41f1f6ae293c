"""fromscrapy: what becomes of the spiders of a Scrapy project."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from crawlframe.load_spiders import scrapy_project
from crawlservice.cli.command import Command as ServiceCommand


class Command(ServiceCommand):
    help = (
        "Loads the spiders of a Scrapy project and says of each whether it runs, what is ignored, "
        "and what cannot work, with the reason. Exits with 1 if one cannot run or does not load."
    )
    needs_database = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path, help="the directory with scrapy.cfg")

    def handle(self, *args: Any, **options: Any) -> None:
        scrapy_project(str(options["path"]))
        from crawlframe.scrapy.project import spiders_of
        from crawlframe.scrapy.report import verdict_on
        from crawlframe.scrapy.spider import PortedSpider

        registry = spiders_of(options["path"], limit=settings.CRAWLFRAME.load_timeout)
        spiders = [registry.get(name) for name in sorted(registry.spiders)]
        verdicts = [verdict_on(one) for one in spiders if issubclass(one, PortedSpider)]
        for verdict in verdicts:
            self.stdout.write(str(verdict))
        for module, problem in sorted(registry.broken.items()):
            self.stdout.write(f"\n{module} does not load\n{problem}")
        cannot = sum(bool(verdict.cannot) for verdict in verdicts)
        but = sum(bool(verdict.but and not verdict.cannot) for verdict in verdicts)
        self.stdout.write(
            f"\n{len(verdicts)} spiders: {len(verdicts) - cannot - but} run, {but} run with "
            f"differences, {cannot} cannot"
        )
        if cannot or registry.broken:
            raise CommandError(
                f"{cannot} spiders cannot run, and {len(registry.broken)} modules do not load"
            )
        self.stdout.write(f"CRAWLFRAME_SCRAPY={options['path']} makes a node run them")
