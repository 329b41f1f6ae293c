"""store: the database, Redis, the file store and the page cache of this installation."""

from __future__ import annotations

import time
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import models, transaction
from django.db.models import Count, Sum
from django.db.models.functions import Cast
from django.template.defaultfilters import filesizeformat

from crawlframe.base.program import command
from crawlframe.base.secret import SEALED
from crawlframe.errors import CacheUnusable
from crawlframe.fetch.page_cache import PLACE, PageCache
from crawlframe.files.spool import Spool
from crawlframe.frontier import Frontier
from crawlframe.frontier.client.rows import SetAside
from crawlservice.accounts.journal import record
from crawlservice.cli.command import Advance, JsonCommand, ServiceCommand, add_dry_run, add_json
from crawlservice.cli.listing import Listing, attributes, facts_table
from crawlservice.cli.noun import Noun
from crawlservice.connections import installation
from crawlservice.connections.frontier import frontier, redis_url
from crawlservice.connections.installation import keep_key
from crawlservice.files import check, pruning
from crawlservice.files.download import store
from crawlservice.files.pruning import FileExtent
from crawlservice.ledger.audit import Found, audit_cluster, audit_group, groups, sizes
from crawlservice.ledger.reconcile import Reconciliation
from crawlservice.models import (
    AlertTarget,
    BotKey,
    Export,
    HostCredential,
    Page,
    Proxy,
    ProxySource,
    Schedule,
    StoredFile,
    Task,
    Webhook,
)
from crawlservice.security.sealing import SealError, reseal
from crawlservice.tasks.arguments.secrets import resealed
from crawlservice.tasks.submit import get_task

HOURS = 24.0  # for which a file is kept that nothing names
DIFFER = (
    "they differ: this Redis belongs to another database, and is not used. Give this installation "
    "a CRAWLFRAME_KEY_PREFIX or a Redis database of its own, or take Redis over: "
)
ROWS = Listing[SetAside](
    "rows",
    attributes("time=at", "row=name", "value"),
    "no unreadable rows in Redis",
    folded=("value",),
)
# Model, its sealed columns, and how one of them is encrypted again.
Sealed = tuple[type[models.Model], tuple[str, ...], Callable[[Any], Any]]
PLACES: tuple[Sealed, ...] = (
    (Webhook, ("sealed_secret", "sealed_login"), reseal),
    (AlertTarget, ("sealed_address",), reseal),
    (Export, ("sealed",), reseal),
    (BotKey, ("sealed_private",), reseal),
    (HostCredential, ("sealed_secret",), reseal),
    (Proxy, ("sealed_login",), reseal),
    (ProxySource, ("sealed_place",), reseal),
    (Schedule, ("arguments",), resealed),
    (Task, ("arguments",), resealed),
)


class Audit(ServiceCommand):
    help = "Checks that counters, queues, ledger and items agree. Exits with 1 if they do not."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("ids", type=int, nargs="*", metavar="ID", help="all tasks by default")

    def handle(self, *args: Any, **options: Any) -> None:
        for number in options["ids"]:
            get_task(number)
        problems = audit_cluster(frontier())
        rows = sizes(options["ids"])
        with self.progress("ledger rows", sum(rows.values())) as advance:
            for group in groups(rows):
                tasks = [*Task.objects.filter(pk__in=group).order_by("pk")]
                found = audit_group(tasks, Part(sum(rows[task] for task in group), advance))
                for some in found.values():
                    problems += some
                if len(rows) > 1:  # a large one takes its time
                    self._print(found)
        for problem in problems:
            self.stdout.write(problem)
        if problems:
            raise CommandError(f"{len(problems)} problems in {len(rows)} tasks and the frontier")
        self.stdout.write(f"all holds: {len(rows)} tasks and the frontier")

    def _print(self, found: Found) -> None:
        for task, problems in found.items():
            holds = f"{len(problems)} problems" if problems else "all holds"
            self.stdout.write(f"task {task}: {holds}")
        self.stdout.flush()


class Part:
    """A group of ``size`` ledger rows, which is called with the share that is done."""

    def __init__(self, size: int, advance: Advance) -> None:
        self._size = size
        self._advance = advance
        self._share = 0.0

    def __call__(self, share: float) -> None:
        self._advance(self._size * (share - self._share))
        self._share = share


class Reconcile(ServiceCommand):
    help = (
        "Brings Redis up to what the database knows of tasks: requests that it lost come back, "
        "requests that have a ledger row are completed. Nodes may keep running, and repeating it "
        "changes nothing. Nodes do it by themselves when they find that Redis has lost data."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "ids", type=int, nargs="*", metavar="ID", help="all unfinished tasks by default"
        )
        add_dry_run(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        active = Task.objects.filter(state__in=Task.ACTIVE).order_by("id")
        tasks = [get_task(number) for number in options["ids"]] or [*active]
        if not tasks:
            self.stdout.write("there are no unfinished tasks")
            return
        if options["dry_run"]:
            lost = "; ".join(f"task {task.pk}: {_differs(task)}" for task in tasks)
            self.only_shows(options, f"bring Redis up to the database, {lost}")
            return
        with self.progress("tasks", len(tasks)) as advance:
            for task in tasks:
                started = time.monotonic()
                done = Reconciliation(task, frontier()).run()
                record("reconcile", task=task, command=True)
                advance(1)
                self.stdout.write(
                    f"task {task.pk}: {done.admitted} requests brought back, {done.completed} of "
                    f"all that waited were done already, {time.monotonic() - started:.1f} s"
                )
                self.stdout.flush()
        self.done(f"Redis is up to the database: {len(tasks)} tasks", None)


def _differs(task: Task) -> str:
    """What Redis lacks of a task, by its counts."""
    counts = frontier().counts(task.pk)
    if counts is None:
        return "Redis does not know it"
    rows = Page.objects.filter(task=task).count()
    return f"{rows:,} ledger rows, {counts.nf + counts.ne:,} ended requests in Redis"


class CacheCommand(ServiceCommand):
    needs_database = False

    def find(self) -> Path | None:
        """The cache; None, and a word about it, if there is none."""
        path: Path = settings.VAR_DIR / PLACE
        if path.exists():
            return path
        self.stdout.write(f"no pages: there is no {path}")
        return None


class ShowCache(CacheCommand):
    def handle(self, *args: Any, **options: Any) -> None:
        if path := self.find():
            with closing(PageCache(path)) as cache:
                self.stdout.write(f"kept: {_cached(cache)}, in {path}")


class ClearCache(CacheCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        add_dry_run(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        if (path := self.find()) is None:
            return
        try:
            with closing(PageCache(path)) as cache:
                gone = f"{_cached(cache)}, in {path}"
                if self.only_shows(options, f"delete {gone}"):
                    return
                cache.clear()
        except CacheUnusable:
            gone = f"{path}, which could not be read"
            if self.only_shows(options, f"delete {gone}"):
                return
            PageCache.delete(path)
        self.done(f"deleted: {gone}", None)


def _cached(cache: PageCache) -> str:
    pages, size = cache.extent()
    return f"{pages:,} pages, {size / (1 << 20):,.1f} MiB"


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


class Reseal(ServiceCommand):
    help = (
        "Encrypts all secrets (of webhooks, hosts, keys, and arguments of tasks and schedules) "
        "with CRAWLFRAME_SECRET_KEY; afterwards the former key can be removed from "
        "CRAWLFRAME_SECRET_KEY_FALLBACKS. Exits with 1 if one cannot be read."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_dry_run(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        with self.progress("encrypting"), transaction.atomic():
            done, failed = reseal_all()
            if options["dry_run"]:
                transaction.set_rollback(True)
            else:
                keep_key()
                told: dict[str, Any] = {**done, "failed": failed}
                record("reseal", command=True, **told)
        secrets = ", ".join(f"{kind} {number:,}" for kind, number in done.items()) or "none"
        if not self.only_shows(options, f"encrypt secrets again: {secrets}"):
            self.done(f"secrets that were encrypted again: {secrets}", None)
        if failed:
            raise CommandError(
                f"secrets that are encrypted with an unknown key: {', '.join(failed)}; name that "
                "key in CRAWLFRAME_SECRET_KEY_FALLBACKS and repeat this, or enter them again"
            )


def reseal_all() -> tuple[dict[str, int], list[str]]:
    """Encrypts all secrets again, in the caller's transaction. Returns the number of rows of each
    kind, and the names of rows whose key is unknown."""
    done: dict[str, int] = {}
    failed = []
    for model, columns, again in PLACES:
        kind, number = str(model._meta.verbose_name_plural), 0
        for row in _rows(model, columns):
            try:
                for column in columns:
                    setattr(row, column, again(getattr(row, column)))
            except SealError:
                failed.append(f"{model._meta.verbose_name} {row}")
            else:
                row.save(update_fields=columns)
                number += 1
        if number:
            done[kind] = number
    return done, failed


def _rows(model: type[models.Model], columns: tuple[str, ...]) -> Iterator[Any]:
    """Rows with a secret, one after another; most tasks have none."""
    rows = model._default_manager.order_by("pk").select_for_update().only("pk", *columns)
    if columns == ("arguments",):
        told = Cast("arguments", models.TextField())
        rows = rows.annotate(told=told).filter(told__contains=f'"{SEALED}"')
    return rows.iterator(chunk_size=500)


class Command(Noun):
    verbs = {
        "show": ShowStore,
        "take-over": TakeOver,
        "new-id": RenewId,
        "audit": Audit,
        "reconcile": Reconcile,
        "reseal": Reseal,
        "quarantine": ListQuarantine,
        "clear-quarantine": ClearQuarantine,
        "check-files": CheckFiles,
        "prune-files": PruneFiles,
        "cache": ShowCache,
        "clear-cache": ClearCache,
    }
