"""installation: which installation the database is, and which one Redis belongs to."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from crawlframe.frontier import Frontier
from crawlservice.accounts.journal import record
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.cli.terminal import facts_table
from crawlservice.connections import installation
from crawlservice.connections.frontier import redis_url

DIFFER = (
    "they differ: this Redis belongs to another database, and is not used. Give this installation "
    "a CRAWLFRAME_KEY_PREFIX or a Redis database of its own, or take Redis over with --take-over"
)


class Command(ServiceCommand):
    help = (
        "Shows the installation ids of the database and of Redis. Exits with 1 if they differ, "
        "except after --new-id: nodes, web and commands refuse to use this Redis."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        change = parser.add_mutually_exclusive_group()
        change.add_argument(
            "--take-over",
            action="store_true",
            help="make Redis belong to this database: all that Redis holds with this key prefix is "
            "dropped, and nodes fill it again from the database. For a Redis whose own database is "
            "gone; refused while nodes use it",
        )
        change.add_argument(
            "--new-id",
            action="store_true",
            help="give this database a new id, if it is a copy of the database of "
            "another cluster; refused while nodes use the Redis that has this id",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        frontier = Frontier.connect(redis_url(), settings.CRAWLFRAME, follows=True)
        if options["new_id"]:
            before, after = installation.renew(frontier)
            record("renew installation", command=True, before=before, after=after)
        if options["take_over"]:
            before = installation.take_over(frontier)
            after = installation.of_database()
            if before != after:
                record("take over redis", command=True, before=before, after=after)
        mine, theirs = installation.of_database(), frontier.eras.installation()
        self.console.print(
            facts_table(
                [
                    ("database", mine),
                    (
                        "Redis",
                        theirs or "none yet; it is assigned to this database at the first use",
                    ),
                    ("key prefix", settings.CRAWLFRAME.key_prefix),
                ]
            )
        )
        if theirs in ("", mine):
            return
        if options["new_id"]:
            self.stdout.write(DIFFER)
        else:
            raise CommandError(DIFFER)
