"""checkspiders: imports all spiders and shows what they take, or why they do not load."""

from __future__ import annotations

from typing import Any

import msgspec
from django.conf import settings
from django.core.management.base import CommandError
from rich.table import Table

from crawlframe.code.registry import Registry
from crawlframe.loading import load_spiders
from crawlframe.spider import SpiderInfo, SpiderSettings
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.tasks.arguments import signature

DEFAULTS = msgspec.structs.asdict(SpiderSettings())


class Command(ServiceCommand):
    help = "Imports all spiders and shows their arguments and settings. Exits with 1 if one fails."
    needs_database = False

    def handle(self, *args: Any, **options: Any) -> None:
        registry = load_spiders(settings.CRAWLFRAME)
        if registry.infos:
            table = Table("spider", "module", "arguments", "settings", header_style="bold")
            for info in registry.infos:
                table.add_row(info.name, info.module, "\n".join(signature(info)), settings_of(info))
            self.console.print(table)
        for verdict in _verdicts(registry):
            self.stdout.write(verdict)
        for module, problem in sorted(registry.broken.items()):
            self.stdout.write(f"\n{module} does not load\n{problem}")
        if registry.broken:
            raise CommandError(f"broken: {', '.join(sorted(registry.broken))}")
        self.stdout.write(f"{len(registry.infos)} spiders, no problems")


def _verdicts(registry: Registry) -> list[str]:
    """What fromscrapy says of the spiders of a Scrapy project."""
    if not settings.CRAWLFRAME.scrapy:
        return []
    from crawlframe.scrapy.report import verdict_on
    from crawlframe.scrapy.spider import PortedSpider

    spiders = [registry.get(info.name) for info in registry.infos]
    return [str(verdict_on(one)) for one in spiders if issubclass(one, PortedSpider)]


def settings_of(info: SpiderInfo) -> str:
    own = msgspec.structs.asdict(info.settings)
    return "\n".join(f"{k} = {v!r}" for k, v in own.items() if v != DEFAULTS[k]) or "defaults"
