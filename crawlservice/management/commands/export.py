"""export: continuous exports."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from crawlservice.cli.command import JsonCommand, ServiceCommand
from crawlservice.cli.listing import Listing, attributes, plain
from crawlservice.cli.noun import Noun
from crawlservice.exports.file import path_of, problems_of
from crawlservice.exports.source import state_of, with_newest
from crawlservice.models import Export, ExportFile


class ListExports(JsonCommand):
    def handle(self, *args: Any, **options: Any) -> None:
        found = [*with_newest(Export.objects.all())]
        self.show_list(EXPORTS, found, options["json"])
        if options["json"]:
            return
        for export in found:
            if export.problem:
                self.stdout.write(f"\n{plain(f'{export.name}: {export.problem}')}")
        file = ExportFile.objects.first()
        for problem in file.problems if file else ():
            self.stdout.write(f"\n{plain(problem)}")


class CheckExports(ServiceCommand):
    def handle(self, *args: Any, **options: Any) -> None:
        path = path_of(settings.CRAWLFRAME)
        if path is None:
            raise CommandError(f"there is no exports.toml in {settings.CRAWLFRAME.spiders}")
        if problems := problems_of(path):
            raise CommandError("\n".join(problems))
        self.stdout.write(f"{path}: no mistakes")


class Command(Noun):
    verbs = {"list": ListExports, "check": CheckExports}


def _scope(export: Export) -> str:
    words = [export.what, export.spider] if export.spider else [export.what]
    words += [f"of task {export.task}"] if export.task is not None else []
    return " ".join([*words, *(f"{name}={value}" for name, value in export.labels.items())])


EXPORTS = Listing[Any](
    "exports",
    {
        **attributes("name"),
        "state": state_of,
        "exports": _scope,
        "position": lambda export: f"{export.position:,} / {export.newest:,}",
        **attributes("exported=rows", "last sent=last_at", "last batch=last_batch"),
    },
    "no exports; add one in the admin, by the API, or in exports.toml",
    folded=("exports",),
)
