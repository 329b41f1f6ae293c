"""store quarantine, store clear-quarantine: unreadable rows of Redis."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from crawlframe.frontier.client.rows import SetAside
from crawlservice.accounts.journal import record
from crawlservice.cli.command import JsonCommand, ServiceCommand, add_dry_run
from crawlservice.cli.listing import Listing, attributes
from crawlservice.connections.frontier import frontier

ROWS = Listing[SetAside](
    "rows",
    attributes("time=at", "row=name", "value"),
    "no unreadable rows in Redis",
    folded=("value",),
)


class ListQuarantine(JsonCommand):
    help = (
        "Lists rows of Redis that could not be read and were set aside, so that they do not "
        "disturb anything else: when, which hash and field, and how the value begins."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        self.show_list(ROWS, frontier().rows.quarantined(), options["json"])


class ClearQuarantine(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        add_dry_run(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        rows = len(frontier().rows.quarantined())
        if not rows:
            self.stdout.write(ROWS.nothing)
            return
        if self.only_shows(options, f"delete {rows} rows"):
            return
        frontier().rows.clear_quarantine()
        record("forget unreadable rows", command=True, rows=rows)
        self.done(f"{rows} rows deleted", None)
