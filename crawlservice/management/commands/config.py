"""config: the value and the source of each setting."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings

from crawlframe.base.ranks import RANKS
from crawlframe.errors import UnknownSpider
from crawlframe.load_spiders import load_spiders
from crawlframe.spider.spider import SpiderInfo
from crawlservice.cli.command import ServiceCommand, add_json
from crawlservice.cli.listing import Listing
from crawlservice.cli.named_spider import NamedSpiders
from crawlservice.cli.noun import Noun
from crawlservice.config import effective
from crawlservice.connections.lookup import find
from crawlservice.models import Task

SETTINGS = Listing[effective.Effective](
    "settings",
    {
        "name": lambda one: one.name,
        "value": lambda one: one.text,
        "source": lambda one: one.source,
        "rank": lambda one: one.rank,
    },
    "All settings have their defaults.",
    folded=("value",),
    described=lambda one: one._asdict(),
)


class ShowConfig(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group()
        which.add_argument("spider", nargs="?", help="the settings of its tasks")
        which.add_argument("--task", type=int, metavar="ID", help="settings of one task")
        parser.add_argument("--rank", choices=RANKS)
        parser.add_argument(
            "--changed", action="store_true", help="only settings that were changed"
        )
        add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        found = self._found(options["spider"], options["task"])
        if options["rank"]:
            found = [one for one in found if one.rank == options["rank"]]
        if options["changed"]:
            found = effective.changed(found)
        if not (options["spider"] or options["task"] or options["json"]):
            self.stdout.write(
                f"Settings of this process, as a node {settings.CRAWLFRAME.node!r} that is started "
                "here has them. Nodes of other machines, and running ones, may have others."
            )
        self.show_list(SETTINGS, found, options["json"])

    def _found(self, spider: str | None, task_id: int | None) -> list[effective.Effective]:
        if task_id is not None:
            task = find(Task.objects.defer("seeds"), "task", task_id)
            try:
                return effective.of_task(task, self._info(task.spider))
            except UnknownSpider as error:
                self.stderr.write(f"warning: {error}; only settings kept by the task are shown")
                return effective.of_task(task, None)
        if spider is None:
            return effective.of_process()
        return effective.of_spider(self._info(spider))

    def _info(self, name: str) -> SpiderInfo:
        return NamedSpiders(load_spiders(settings.CRAWLFRAME)).get(name).info


class Command(Noun):
    verbs = {"show": ShowConfig}
