"""spiders: the spiders with their last runs; disables and enables one."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from rich.table import Table
from rich.text import Text

from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.cli.terminal import plain, status
from crawlservice.tasks import spider_switch
from crawlservice.tasks.spider_runs import SpiderNow, look_up, overview

WHO: dict[str, Any] = {"command": True}


class Command(ServiceCommand):
    help = "Lists spiders with their last runs, and disables or enables one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", nargs="?", help="the spider to disable or enable")
        which = parser.add_mutually_exclusive_group()
        which.add_argument(
            "--disable", metavar="REASON", help="nothing starts it; its running tasks go on"
        )
        which.add_argument("--enable", action="store_true", help="let it be started again")

    def handle(self, *args: Any, **options: Any) -> None:
        name, reason = options["name"], options["disable"]
        if name is None:
            if reason is not None or options["enable"]:
                raise CommandError("name the spider")
            self._list()
            return
        if reason is None and not options["enable"]:
            raise CommandError("say what to do with it: --disable REASON, or --enable")
        if look_up(name) is None:
            raise CommandError(f"no spider {name!r} was ever published or submitted")
        if reason is not None:
            spider_switch.disable(name, reason, WHO)
            self.stdout.write(plain(f"spider {name} is disabled; its running tasks go on"))
        elif spider_switch.enable(name, WHO):
            self.stdout.write(plain(f"spider {name} is enabled"))
        else:
            self.stdout.write(plain(f"spider {name} was not disabled"))

    def _list(self) -> None:
        found = overview()
        if not found.complete:
            self.stderr.write("Redis does not answer: which spiders nodes publish is unknown")
        table = Table("spider", "last task", "ended", box=None, pad_edge=False, header_style="bold")
        for column in ("items", "errors"):
            table.add_column(column, justify="right")
        table.add_column("code")
        for spider in found.found:
            table.add_row(*_row(spider, found.complete))
        if table.row_count:
            self.console.print(table)
        else:
            self.stdout.write("no spiders; start a node")
        for spider in found.found:
            if spider.disabled:
                self.stdout.write(plain(f"{spider.name} is disabled: {spider.disabled.reason}"))


def _row(spider: SpiderNow, complete: bool) -> list[str | Text]:
    last = spider.last
    code = "published" if spider.info else "not published" if complete else "?"
    if last is None:
        return [plain(spider.name), "never", "", "", "", code]
    ended = last.finished_at is not None
    numbers = [f"{last.items:,}", f"{last.errors:,}"] if ended else ["-", "-"]
    label = Text.assemble(f"{last.pk} ", status(last))
    at = f"{last.finished_at:%Y-%m-%d %H:%M:%S}" if last.finished_at else "-"
    return [plain(spider.name), label, at, *numbers, code]
