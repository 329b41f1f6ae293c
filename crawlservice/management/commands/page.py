"""page: shows a kept page on the terminal, or writes its body."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any, TextIO
from uuid import UUID

from django.core.management.base import CommandError

from crawlframe.base.program import command
from crawlframe.errors import CrawlframeError
from crawlservice.accounts.journal import record
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.cli.terminal import plain
from crawlservice.models import KeptPage
from crawlservice.pages.page_viewer import ShownPage


class UnknownPage(CrawlframeError):
    """No such page is kept."""


class Command(ServiceCommand):
    help = (
        "Shows the newest kept page of a request or a URL: its headers on standard error, its body "
        "on standard output."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("page", help="the id of a request, or a URL as it was after redirects")
        parser.add_argument("--headers", action="store_true", help="without the body")

    def handle(self, *args: Any, **options: Any) -> None:
        row = _find(options["page"])
        say = self.stderr
        say.write(plain(f"{row.status} {row.url}"), str)
        say.write(
            plain(f"request {row.rid} of task {row.task_id}, {row.fetched_at:%F %T} UTC"), str
        )
        if row.reason:
            say.write(plain(f"kept because of {row.reason}"), str)
        for part in ("sent", "received"):
            for name, value in row.headers.get(part, ()):
                say.write(plain(f"{part}: {name}: {value}"), str)
        if not options["headers"]:
            content = ShownPage.of(row)
            record("download_page", task=row.task_id, rid=str(row.rid), command=True)
            self._print(content)

    def _print(self, content: ShownPage) -> None:
        out: TextIO = self.stdout._out  # type: ignore[assignment]
        if not hasattr(out, "buffer"):
            self.stdout.write(content.text)
        elif out.isatty() and content.kind == "binary":
            raise CommandError("the body is not text; send it to a file: page … > file")
        elif out.isatty():
            self.stdout.write(plain(content.text))
        else:
            out.buffer.write(content.body)
            out.buffer.flush()


def _find(page: str) -> KeptPage:
    """Raises UnknownPage."""
    rows = KeptPage.objects.select_related("body").defer("body__data").order_by("-pk")
    try:
        rows = rows.filter(rid=UUID(page))
    except ValueError:
        rows = rows.filter(url=page)
    if (row := rows.first()) is None:
        raise UnknownPage(
            f"no page of {page} is kept; {command('task ID')} shows a task, and the setting keep "
            "says which pages are kept"
        )
    return row
