"""quarantine: rows of Redis that could not be read and were set aside."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from rich.table import Table

from crawlservice.accounts.journal import record
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.cli.terminal import plain
from crawlservice.connections.frontier import frontier


class Command(ServiceCommand):
    help = (
        "Lists rows of Redis that could not be read and were set aside, so that they do not "
        "disturb anything else: when, which hash and field, and how the value begins."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--clear", action="store_true", help="delete them")

    def handle(self, *args: Any, **options: Any) -> None:
        rows = frontier().rows.quarantined()
        table = Table("time (UTC)", "row", "value", box=None, pad_edge=False, header_style="bold")
        for row in rows:
            table.add_row(f"{row.at:%Y-%m-%d %H:%M:%S}", plain(row.name), plain(row.value))
        if rows:
            self.console.print(table)
        else:
            self.stdout.write("no unreadable rows in Redis")
        if options["clear"] and rows:
            frontier().rows.clear_quarantine()
            record("forget unreadable rows", command=True, rows=len(rows))
            self.stdout.write(f"{len(rows)} rows deleted")
