"""page: kept pages: shows one, or writes many to a file."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any
from uuid import UUID

from crawlframe.base.program import command
from crawlframe.warc import FORMATS
from crawlservice.accounts.journal import record
from crawlservice.cli.command import ServiceCommand, add_json
from crawlservice.cli.listing import plain
from crawlservice.cli.noun import Noun
from crawlservice.connections.lookup import NotFound
from crawlservice.models import KeptPage, Task
from crawlservice.pages.export import NAMES, PagesExport, suffix_of, write
from crawlservice.pages.page_viewer import ShownPage
from crawlservice.tasks.results.export import STDOUT, ExportError, place_of
from crawlservice.tasks.submit import get_task


class ShowPage(ServiceCommand):
    help = (
        "Shows the newest kept page of a request or a URL: its headers on standard error, its body "
        "on standard output."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("page", help="the id of a request, or a URL as it was after redirects")
        parser.add_argument("--headers", action="store_true", help="without the body")
        add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        row = _find(options["page"])
        told = {
            "url": row.url,
            "status": row.status,
            "rid": row.rid,
            "task": row.task_id,
            "fetched_at": row.fetched_at,
            "reason": row.reason,
            "sample": row.sample,
            "headers": row.headers,
        }
        if options["json"]:
            self.show_json(told)
            return
        lines = [
            f"{row.status} {row.url}",
            f"request {row.rid} of task {row.task_id}, {row.fetched_at:%F %T} UTC",
        ]
        if row.reason:
            lines.append(f"kept because of {row.reason}")
        if row.sample:
            lines.append(f"kept in the sample of {row.sample}, without secrets")
        for part in ("sent", "received"):
            lines += [f"{part}: {name}: {value}" for name, value in row.headers.get(part, ())]
        for line in lines:
            self.stderr.write(plain(line), str)
        if not options["headers"]:
            content = ShownPage.of(row)
            record("download_page", task=row.task_id, rid=str(row.rid), command=True)
            self.write_body(content)


class ExportPages(ServiceCommand):
    help = "Writes kept pages to a WARC or WACZ file, for replay tools and other archives."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=int, nargs="?", metavar="TASK", help="number of the task")
        parser.add_argument("--spider", metavar="NAME", help="all tasks of this spider")
        parser.add_argument(
            "-o", "--output", type=Path, required=True, metavar="FILE",
            help=f"the file, {' or '.join(FORMATS)}; - is the standard output",
        )  # fmt: skip
        parser.add_argument("--format", choices=[*NAMES], help="by default by the file's suffix")

    def handle(self, *args: Any, **options: Any) -> None:
        number, spider, path = options["id"], options["spider"], options["output"]
        if (number is None) == (spider is None):
            raise ExportError("give either the number of a task or --spider NAME")
        suffix = suffix_of(path, options["format"])
        format = suffix.split(".")[1]
        more = ""
        if number is not None:
            task = get_task(number)
            rows, name = KeptPage.objects.filter(task=task), f"{task.spider}-{task.pk}"
            record("export pages", task=task, command=True, format=format)
            if task.state in Task.ACTIVE:
                more = f"; task {task.pk} is {task.state}, more may come"
        else:
            if not Task.objects.filter(spider=spider).exists():
                raise ExportError(f"there is no task of a spider {spider!r}")
            rows, name = KeptPage.objects.filter(task__spider=spider), spider
            record("export pages", command=True, spider=spider, format=format)
        with self.progress("writing", rows.count()) as advance:
            export = PagesExport(rows, advance)
            write(export, path, suffix, name)
        told = f"{export.given:,} pages written to {place_of(path)}{more}"
        (self.stderr if path == STDOUT else self.stdout).write(told)


class Command(Noun):
    verbs = {"show": ShowPage, "export": ExportPages}


def _find(page: str) -> KeptPage:
    """Raises NotFound."""
    rows = KeptPage.objects.select_related("body").defer("body__data").order_by("-pk")
    try:
        rows = rows.filter(rid=UUID(page))
    except ValueError:
        rows = rows.filter(url=page)
    if (row := rows.first()) is None:
        raise NotFound(
            "page",
            f"no page of {page} is kept; {command('task show ID')} shows a task, and the setting "
            "keep says which pages are kept",
        )
    return row
