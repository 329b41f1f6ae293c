"""exports: the continuous exports, with how far each is."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from rich.table import Table

from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.cli.terminal import plain
from crawlservice.exports.file import path_of, problems_of
from crawlservice.exports.source import state_of, with_newest
from crawlservice.models import Export, ExportFile


class Command(ServiceCommand):
    help = "Lists the continuous exports, with how far each is."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--check", action="store_true", help="only check exports.toml of the spiders here"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["check"]:
            self._check()
            return
        table = Table("name", "state", "exports", "position", "exported", box=None, pad_edge=False)
        for column in ("last batch", "last sent"):
            table.add_column(column)
        found = [*with_newest(Export.objects.all())]
        for export in found:
            sent = f"{export.last_at:%Y-%m-%d %H:%M:%S} UTC" if export.last_at else "-"
            position = f"{export.position:,} / {export.newest:,}"  # type: ignore[attr-defined]
            cells = (export.name, state_of(export), _scope(export), position)
            table.add_row(*map(plain, (*cells, f"{export.rows:,}", export.last_batch or "-", sent)))
        if found:
            self.console.print(table)
        else:
            self.stdout.write("no exports; add one in the admin, by the API, or in exports.toml")
        for export in found:
            if export.problem:
                self.stdout.write(f"\n{plain(f'{export.name}: {export.problem}')}")
        file = ExportFile.objects.first()
        for problem in file.problems if file else ():
            self.stdout.write(f"\n{plain(problem)}")

    def _check(self) -> None:
        path = path_of(settings.CRAWLFRAME)
        if path is None:
            raise CommandError(f"there is no exports.toml in {settings.CRAWLFRAME.spiders}")
        if problems := problems_of(path):
            raise CommandError("\n".join(problems))
        self.stdout.write(f"{path}: no mistakes")


def _scope(export: Export) -> str:
    words = [export.what, export.spider] if export.spider else [export.what]
    words += [f"of task {export.task}"] if export.task is not None else []
    return " ".join([*words, *(f"{name}={value}" for name, value in export.labels.items())])
