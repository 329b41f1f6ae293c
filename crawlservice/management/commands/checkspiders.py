"""checkspiders: imports all spiders and shows what they take, or why they do not load."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from rich.table import Table

from crawlframe.code.registry import Registry
from crawlframe.errors import UnknownSpider
from crawlframe.load_spiders import load_spiders
from crawlframe.spider.spider import SpiderInfo
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.cli.named_spider import NamedSpider, NamedSpiders
from crawlservice.config import effective
from crawlservice.tasks.arguments.spider_arguments import signature


class Command(ServiceCommand):
    help = "Imports all spiders and shows their arguments and settings. Exits with 1 if one fails."
    needs_database = False

    def handle(self, *args: Any, **options: Any) -> None:
        registry = load_spiders(settings.CRAWLFRAME)
        recipes, unreadable = self._recipes(registry)
        if registry.infos or recipes:
            table = Table("spider", "module", "arguments", "settings", header_style="bold")
            for info in registry.infos:
                table.add_row(info.name, info.module, "\n".join(signature(info)), settings_of(info))
            for recipe in recipes:
                place = f"recipe, version {recipe.recipe}"
                own, takes = settings_of(recipe.info), "\n".join(signature(recipe.info))
                table.add_row(recipe.info.name, place, takes, own)
            self.console.print(table)
        for verdict in _verdicts(registry):
            self.stdout.write(verdict)
        for module, problem in sorted(registry.broken.items()):
            self.stdout.write(f"\n{module} does not load\n{problem}")
        for problem in unreadable.values():
            self.stdout.write(f"\n{problem}")
        if broken := sorted([*registry.broken, *unreadable]):
            raise CommandError(f"broken: {', '.join(broken)}")
        self.stdout.write(f"{len(registry.infos) + len(recipes)} spiders, no problems")

    def _recipes(self, registry: Registry) -> tuple[list[NamedSpider], dict[str, str]]:
        """The recipes of the database that nodes use, and why others cannot be read."""
        spiders = NamedSpiders(registry)
        if spiders.problem:
            self.stderr.write(
                f"note: the database could not be asked for recipes: {spiders.problem}"
            )
        found, unreadable = list[NamedSpider](), dict[str, str]()
        for name in spiders.recipes:
            if name in registry.spiders:
                self.stderr.write(f"note: {spiders.get(name).note}")
                continue
            try:
                found.append(spiders.recipe(name))
            except UnknownSpider as error:
                unreadable[name] = str(error)
        return found, unreadable


def _verdicts(registry: Registry) -> list[str]:
    """What fromscrapy says of the spiders of a Scrapy project."""
    if not settings.CRAWLFRAME.scrapy:
        return []
    from crawlframe.scrapy.report import verdict_on
    from crawlframe.scrapy.spider import PortedSpider

    spiders = [registry.get(info.name) for info in registry.infos]
    return [str(verdict_on(one)) for one in spiders if issubclass(one, PortedSpider)]


def settings_of(info: SpiderInfo) -> str:
    own = effective.changed(effective.of_spider(info))
    return "\n".join(f"{one.name} = {one.value!r}" for one in own) or "defaults"
