"""SpiderCheck: imports all spiders and shows their arguments, or the errors of their code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings
from django.core.management.base import CommandError
from rich.table import Table

from crawlframe.code.registry import Registry
from crawlframe.errors import UnknownSpider
from crawlframe.load_spiders import load_spiders, scrapy_project
from crawlframe.spider.spider import SpiderInfo
from crawlservice.cli.command import ServiceCommand
from crawlservice.cli.named_spider import NamedSpider, NamedSpiders
from crawlservice.config import effective
from crawlservice.tasks.arguments.spider_arguments import signature

if TYPE_CHECKING:
    from crawlframe.scrapy.report import SpiderReport


class SpiderCheck:
    """Loads the spiders and prints their problems with ``command``."""

    def __init__(self, command: ServiceCommand) -> None:
        self._command = command
        self._say = command.stdout.write

    def all(self) -> list[str]:
        """Shows spiders and recipes with their arguments and settings. Returns the names of those
        that are broken."""
        with self._command.progress("loading spiders"):
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
            self._command.console.print(table)
        if settings.CRAWLFRAME.scrapy:
            self._say_verdicts(registry)
        self._say_broken(registry)
        for problem in unreadable.values():
            self._say(f"\n{problem}")
        broken = sorted([*registry.broken, *unreadable])
        if not broken:
            self._say(f"{len(registry.infos) + len(recipes)} spiders, no problems")
        return broken

    def scrapy(self, path: Path) -> None:
        """Prints for each spider of a Scrapy project whether it runs, its ignored parts, and the
        parts that cannot work, with the reason. Raises CommandError if one cannot run or does not
        load."""
        scrapy_project(str(path))
        from crawlframe.scrapy.project import spiders_of

        registry = spiders_of(path, limit=settings.CRAWLFRAME.load_timeout)
        verdicts = self._say_verdicts(registry)
        self._say_broken(registry)
        cannot = sum(bool(verdict.cannot) for verdict in verdicts)
        but = sum(bool(verdict.but and not verdict.cannot) for verdict in verdicts)
        self._say(
            f"\n{len(verdicts)} spiders: {len(verdicts) - cannot - but} run, {but} run with "
            f"differences, {cannot} cannot"
        )
        if cannot or registry.broken:
            raise CommandError(
                f"{cannot} spiders cannot run, and {len(registry.broken)} modules do not load"
            )
        self._say(f"CRAWLFRAME_SCRAPY={path} makes a node run them")

    def _say_verdicts(self, registry: Registry) -> list[SpiderReport]:
        from crawlframe.scrapy.report import shared_by, verdict_on
        from crawlframe.scrapy.spider import PortedSpider

        spiders = [registry.get(name) for name in sorted(registry.spiders)]
        verdicts = [verdict_on(one) for one in spiders if issubclass(one, PortedSpider)]
        if shared := shared_by(verdicts):
            self._say(f"All {len(verdicts)} spiders: {'; '.join(shared)}")
        for verdict in verdicts:
            self._say(str(verdict))
        return verdicts

    def _say_broken(self, registry: Registry) -> None:
        for module, problem in sorted(registry.broken.items()):
            self._say(f"\n{module} does not load\n{problem}")

    def _recipes(self, registry: Registry) -> tuple[list[NamedSpider], dict[str, str]]:
        """The recipes of the database that nodes use, and why others cannot be read."""
        spiders = NamedSpiders(registry)
        say = self._command.stderr.write
        if spiders.problem:
            say(f"note: the database could not be asked for recipes: {spiders.problem}")
        found, unreadable = list[NamedSpider](), dict[str, str]()
        for name in spiders.recipes:
            if name in registry.spiders:
                say(f"note: {spiders.get(name).note}")
                continue
            try:
                found.append(spiders.recipe(name))
            except UnknownSpider as error:
                unreadable[name] = str(error)
        return found, unreadable


def settings_of(info: SpiderInfo) -> str:
    own = effective.changed(effective.of_spider(info))
    return "\n".join(f"{one.name} = {one.value!r}" for one in own) or "defaults"
