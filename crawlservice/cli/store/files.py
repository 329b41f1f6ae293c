"""store check-files, store prune-files: the file store."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db.models import Count, Sum
from django.template.defaultfilters import filesizeformat

from crawlframe.files.spool import Spool
from crawlservice.accounts.journal import record
from crawlservice.cli.command import ServiceCommand, add_dry_run
from crawlservice.files import check, pruning
from crawlservice.files.download import store
from crawlservice.files.pruning import FileExtent
from crawlservice.models import StoredFile

HOURS = 24.0  # for which a file is kept that nothing names


class CheckFiles(ServiceCommand):
    help = "Checks whether all files that pages name are in the store. Exits with 1 if not."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--contents", action="store_true", help="read and hash all of them")

    def handle(self, *args: Any, **options: Any) -> None:
        found = 0
        with self.progress("checking", StoredFile.objects.count()) as advance:
            for problem in check.problems(advance, contents=options["contents"]):
                found += 1
                self.stdout.write(problem)
        rows = StoredFile.objects.aggregate(files=Count("pk"), size=Sum("size", default=0))
        self.stdout.write(f"{_text(FileExtent(**rows))} in {store().address}")
        left = _extent(pruning.unknown(timedelta()))
        if left.files:
            self.stdout.write(f"besides, {_text(left)} that the database does not know")
        if found:
            raise CommandError(f"{found} files are missing or damaged")


class PruneFiles(ServiceCommand):
    help = "Deletes files that no page names. Nodes may keep running."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--older-than", type=_hours, default=HOURS, metavar="HOURS",
            help=f"only files saved that long ago (default {HOURS:g})",
        )  # fmt: skip
        add_dry_run(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        age = timedelta(hours=options["older_than"])
        if options["dry_run"]:
            rows = pruning.unused(age).order_by()
            sizes = rows.aggregate(files=Count("pk"), size=Sum("size", default=0))
            much = FileExtent(**sizes) + _extent(pruning.unknown(age))
            self.only_shows(options, f"delete {_text(much)}, from {store().address}")
            return
        pruning.forget_removed_tasks()
        gone = FileExtent()
        try:
            with self.progress("deleting"):
                while (some := pruning.prune_unused(age)).files:
                    gone += some
                gone += pruning.prune_unknown(pruning.unknown(age))
            swept = Spool(store().spool).sweep()
        finally:
            if gone.files:
                record("prune_files", command=True, files=gone.files, bytes=gone.size)
            self.done(f"deleted: {_text(gone)}, from {store().address}", None)
        if swept:
            node = settings.CRAWLFRAME.node
            self.stdout.write(f"and {swept} that were left in the spool of {node}")


def _extent(files: Any) -> FileExtent:
    much = FileExtent()
    for file in files:
        much += FileExtent(1, file.size)
    return much


def _hours(text: str) -> float:
    try:
        hours = float(text)
    except ValueError:
        hours = -1.0
    if not 0 <= hours <= 876_000:
        raise ArgumentTypeError(f"{text!r} must be a number of hours, 0 or more")
    return hours


def _text(much: FileExtent) -> str:
    return f"{much.files:,} files, {filesizeformat(much.size)}".replace("\xa0", " ")
