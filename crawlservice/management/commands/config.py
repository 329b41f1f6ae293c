"""config: what each setting is, and where it comes from."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from rich.table import Table

from crawlframe.base.ranks import RANKS
from crawlframe.errors import UnknownSpider
from crawlframe.load_spiders import load_spiders
from crawlframe.spider.spider import SpiderInfo
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.cli.named_spider import NamedSpiders
from crawlservice.cli.terminal import plain
from crawlservice.config import effective
from crawlservice.models import Task
from crawlservice.tasks.submit import UnknownTask


class Command(ServiceCommand):
    help = "Shows what each setting is, where it comes from, and its rank."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="show")
        show = verbs.add_parser(
            "show", help="of nodes and the web, as this process was started; or of a spider or task"
        )
        which = show.add_mutually_exclusive_group()
        which.add_argument("spider", nargs="?", help="the settings of its tasks")
        which.add_argument("--task", type=int, metavar="ID", help="those of one task")
        show.add_argument("--rank", choices=RANKS)
        show.add_argument("--changed", action="store_true", help="only those that somebody has set")
        show.add_argument("--json", action="store_true", help="one JSON array, for programs")

    def handle(self, *args: Any, **options: Any) -> None:
        found = self._found(options["spider"], options["task"])
        if options["rank"]:
            found = [one for one in found if one.rank == options["rank"]]
        if options["changed"]:
            found = effective.changed(found)
        if options["json"]:
            rows = [one._asdict() for one in found]
            self.stdout.write(json.dumps(rows, ensure_ascii=False, indent=2))
            return
        table = Table("setting", "value", "source", "rank", box=None, pad_edge=False)
        for one in found:
            table.add_row(one.name, plain(one.text) or "-", one.source, one.rank)
        self.console.print(table)

    def _found(self, spider: str | None, task_id: int | None) -> list[effective.Effective]:
        if task_id is not None:
            task = Task.objects.filter(pk=task_id).defer("seeds").first()
            if task is None:
                raise UnknownTask(f"there is no task {task_id}")
            try:
                return effective.of_task(task, self._info(task.spider))
            except UnknownSpider as error:
                self.stderr.write(f"warning: {error}; only what the task keeps is shown")
                return effective.of_task(task, None)
        if spider is None:
            return effective.of_process()
        return effective.of_spider(self._info(spider))

    def _info(self, name: str) -> SpiderInfo:
        return NamedSpiders(load_spiders(settings.CRAWLFRAME)).get(name).info
