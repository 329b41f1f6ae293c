"""store show, store take-over, store new-id: installations of the database and of Redis."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from crawlframe.base.program import command
from crawlframe.frontier import Frontier
from crawlservice.accounts.journal import record
from crawlservice.cli.command import ServiceCommand, add_dry_run, add_json
from crawlservice.cli.terminal import facts_table
from crawlservice.connections import installation
from crawlservice.connections.frontier import redis_url

DIFFER = (
    "they differ: this Redis belongs to another database, and is not used. Give this installation "
    "a CRAWLFRAME_KEY_PREFIX or a Redis database of its own, or take Redis over: "
)


class IdCommand(ServiceCommand):
    def agree(self, there: Frontier, as_json: bool = False) -> bool:
        """Shows the ids, and returns whether this database may use Redis."""
        mine, theirs = installation.of_database(), there.eras.installation()
        prefix = settings.CRAWLFRAME.key_prefix
        if as_json:
            self.show_json({"database": mine, "redis": theirs or None, "key_prefix": prefix})
        else:
            none = "none yet; it is assigned to this database at the first use"
            ids = [("database", mine), ("Redis", theirs or none), ("key prefix", prefix)]
            self.console.print(facts_table(ids))
        return theirs in ("", mine)


class ShowStore(IdCommand):
    help = (
        "Shows the installation ids of the database and of Redis. Exits with 1 if they differ: "
        "nodes, web and commands refuse to use this Redis."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        if not self.agree(_unchecked(), options["json"]):
            raise CommandError(f"{DIFFER}{command('store take-over')}")


class TakeOver(IdCommand):
    help = (
        "Makes Redis belong to this database: all that Redis holds with this key prefix is "
        "dropped, and nodes fill it again from the database. For a Redis whose own database is "
        "gone; refused while nodes use it."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_dry_run(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        there = _unchecked()
        if options["dry_run"]:
            mine = self.agree(there)
            change = "change nothing" if mine else "drop all data of this Redis"
            self.only_shows(options, change)
            return
        before = installation.take_over(there)
        after = installation.of_database()
        if before != after:
            record("take over redis", command=True, before=before, after=after)
        self.agree(there)
        if before != after:
            self.done(f"Redis belonged to {before or 'nobody'}; its data was dropped", None)


class RenewId(IdCommand):
    help = (
        "Gives this database a new id, if it is a copy of the database of another cluster; refused "
        "while nodes use the Redis that has this id."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_dry_run(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        there = _unchecked()
        change = "give this database a new id; it needs a Redis or a key prefix of its own then"
        if options["dry_run"]:
            installation.check_renewable(there)
            self.agree(there)
            self.only_shows(options, change)
            return
        before, after = installation.renew(there)
        record("renew installation", command=True, before=before, after=after)
        agree = self.agree(there)
        self.done(f"the id of this database was {before}", None)
        if not agree:
            self.stdout.write(f"{DIFFER}{command('store take-over')}")


def _unchecked() -> Frontier:
    """The frontier of whatever installation."""
    return Frontier.connect(redis_url(), settings.CRAWLFRAME, follows=True)
