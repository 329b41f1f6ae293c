"""Store: the ledger over Django's connection. One transaction per batch of outcomes: pages, items
and follow-ups; the unique rid decides which run of a request counts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import msgspec
from django.db import DataError, Error, IntegrityError, OperationalError, transaction
from django.db import connection as default_connection

from crawlframe import faults
from crawlframe.errors import ArchiveError
from crawlframe.frontier import Counts
from crawlframe.identity.identity import Papers
from crawlframe.ledger import (
    HostStats,
    Ledger,
    LedgerAway,
    LedgerRefused,
    LogLine,
    Recorded,
    RobotsTurn,
    StartPart,
    StoredProxy,
    TaskSpec,
)
from crawlframe.outcome import Outcome, Verdict
from crawlframe.pages.reparse import PageNumbers, Reparse, SourcePage
from crawlframe.pages.results import Results
from crawlframe.revisit.visit import Visit
from crawlframe.robots.state import RobotsState
from crawlframe.stored_page import StoredPage
from crawlframe.task_life import Summary
from crawlservice.connections.watch import NoWatch, Watch
from crawlservice.files import rows as files
from crawlservice.identity.papers import StoredPapers
from crawlservice.ledger import error_causes, host_stats, model_rows, replacement, robots, starts
from crawlservice.ledger import state as task_state
from crawlservice.ledger.commit_order import CommitOrder
from crawlservice.ledger.ending import end, summary_of
from crawlservice.ledger.refused_rows import exceeds_limit
from crawlservice.ledger.rows import insert, read
from crawlservice.ledger.rows import recorded as written
from crawlservice.models import KeptPage, Task
from crawlservice.pages import lookup
from crawlservice.pages.archived import archive
from crawlservice.pages.results import results_of
from crawlservice.pages.rows import PageRows
from crawlservice.pages.sources import Sources, source_pages
from crawlservice.proxies import runs
from crawlservice.proxies.pool import StoredProxies
from crawlservice.recipes.current import current, numbers
from crawlservice.tasks import aliases as task_aliases
from crawlservice.tasks import budgets, log, stats
from crawlservice.tasks.secret_arguments import revealed
from crawlservice.watches import found, visits


class DjangoLedger(Ledger):
    """The engine's Ledger on this thread's Django connection."""

    def __init__(self, watch: Watch | None = None) -> None:
        """``watch``: the one that watches this process's connections."""
        self._watch = watch or NoWatch()
        self._papers = StoredPapers()
        self._proxies = StoredProxies()
        self._pages = PageRows(archive())
        self._sources = Sources(CommitOrder(KeptPage).settled)

    @property
    def waits(self) -> str:
        return self._watch.waits

    def task(self, task: int) -> TaskSpec | None:
        with _named_errors():
            rows = Task.objects.only(
                "spider", "arguments", "priority", "overrides", "reparse", "watch"
            )
            row = rows.filter(pk=task).first()
            recipe = current(row.spider) if row else None
            aliases = task_aliases.of_task(task) if row else ()
        if row is None:
            return None
        arguments = revealed(row.arguments)
        again = None if row.reparse is None else msgspec.convert(row.reparse, Reparse)
        return TaskSpec(
            *(task, row.spider, arguments, row.priority, row.overrides, recipe),
            reparse=again,
            watch=row.watch_id or 0,
            aliases=aliases,
        )

    def recipe_numbers(self, names: Collection[str]) -> dict[str, int]:
        with _named_errors():
            return numbers(names)

    def identity(self) -> Papers:
        with _named_errors():
            return self._papers.read()

    def proxies(self) -> list[StoredProxy]:
        with _named_errors():
            return self._proxies.read()

    def kept_pages(self, keys: Collection[bytes]) -> dict[bytes, StoredPage]:
        with _named_errors():
            return lookup.latest(keys)

    def page_bodies(self, numbers: Collection[int]) -> dict[int, bytes]:
        with _named_errors():
            return lookup.bodies(numbers)

    def results(self, page: StoredPage) -> Results | None:
        with _named_errors():
            return results_of(page)

    def urls_of(self, beginnings: Collection[bytes], task: int) -> dict[bytes, str]:
        with _named_errors():
            return lookup.urls_of(beginnings, task)

    def summary(self, task: int, counts: Counts) -> Summary | None:
        with _named_errors():
            return summary_of(task, counts)

    def commit(self, outcomes: list[Outcome]) -> dict[bytes, Recorded]:
        # Sorted, so that two workers with some of the same requests cannot deadlock. A request that
        # this worker got twice counts once.
        unique = {outcome.rid: outcome for outcome in outcomes}
        ordered = sorted(unique.values(), key=lambda outcome: outcome.rid)
        # In the order in which they came: of two items with one key, the last one wins.
        modelled = [o for o in outcomes if o.models and unique[o.rid] is o]
        with _named_errors(modelled):
            faults.at("commit.before", OperationalError)
            error_causes.assign(ordered)
            self._pages.pack(ordered)
            if finding := found.too_many(ordered):
                old = written([outcome.rid for outcome in finding])
                found.record_ahead(outcome for outcome in finding if outcome.rid not in old)
            won, spent = self._write(ordered, modelled)
            faults.at("commit.after", OperationalError, default_connection.close)
            recorded = read([outcome.rid for outcome in ordered if outcome.rid not in won])
        for outcome in ordered:
            if outcome.rid in won:
                failed = outcome.verdict is Verdict.ERROR
                recorded[outcome.rid] = Recorded(
                    failed,
                    outcome.follow_ups,
                    len(outcome.items),
                    outcome.cancelled,
                    bool(outcome.closing),
                    outcome.excluded,
                    budgets.of_host(spent, outcome) if spent else 0,
                    None if failed else outcome.landing,
                )
        return recorded

    def _write(
        self, outcomes: list[Outcome], modelled: list[Outcome]
    ) -> tuple[set[bytes], dict[budgets.Account, int]]:
        """Returns the rids of the rows that this call wrote, and what their tasks have spent.
        ``modelled``: those with model items, in the order in which they were handed over."""
        more = [o for o in outcomes if o.stats or o.closing or o.budget or o.trap]
        saved = [o for o in outcomes if o.files or o.pictures]
        naming = [o for o in outcomes if o.proxies]
        kept = [o for o in outcomes if o.page is not None]
        watched = [o for o in outcomes if o.visit]
        parsed = [o for o in outcomes if o.source is not None]
        several = more or modelled or saved or naming or kept or watched or parsed
        with transaction.atomic() if several else nullcontext():
            stats.fit(more)
            won = insert(outcomes)
            files.add(outcome for outcome in saved if outcome.rid in won)
            if kept:
                self._pages.add([outcome for outcome in kept if outcome.rid in won])
            if modelled:
                model_rows.save(o for o in modelled if o.rid in won and o.source is None)
            if parsed:
                replacement.replace(o for o in parsed if o.rid in won)
            if naming:
                runs.name(outcome for outcome in naming if outcome.rid in won)
            if watched:
                visits.record([outcome for outcome in watched if outcome.rid in won])
            ours = [outcome for outcome in more if outcome.rid in won]
            stats.add(ours)
            spent = budgets.spend(ours)
            budgets.note_traps(ours)
            _close(ours)
        return won, spent

    def keep_state(self, states: Mapping[tuple[int, str], Mapping[str, str]]) -> None:
        with _named_errors():
            faults.at("state.before", OperationalError)
            task_state.keep(states)

    def pages_to_parse(self, reparse: Reparse, after: int, most: int) -> PageNumbers:
        with _named_errors():
            return self._sources.numbers(reparse, after, most)

    def source_pages(self, numbers: Collection[int]) -> tuple[dict[int, SourcePage], set[int]]:
        with _named_errors():
            return source_pages(numbers)

    def recorded_requests(self, rids: Collection[bytes]) -> set[bytes]:
        with _named_errors():
            return written(rids)

    def last_start_part(self, task: int) -> StartPart | None:
        with _named_errors():
            return starts.last(task)

    def add_start_part(self, part: StartPart) -> bool:
        with _named_errors():
            faults.at("start.part.before", OperationalError)
            added = starts.add(part)
            faults.at("start.part.after", OperationalError, default_connection.close)
        return added

    def add_found(self, task: int, visit: Visit) -> None:
        with _named_errors():
            found.record_ahead([Outcome(b"", task, "", b"", 0, 0, visit=visit)])

    def finish(self, tasks: Mapping[int, Counts], strays: int = 0) -> set[int]:
        """``strays``: rows of each task that are known to belong to no admitted request."""
        with _named_errors():
            faults.at("finish.before", OperationalError)
            with transaction.atomic():
                ended = end(tasks, strays)
            faults.at("finish.after", OperationalError, default_connection.close)
        return ended

    def robots(self, origin: str, lease: float) -> RobotsTurn:
        with _named_errors():
            return robots.turn(origin, lease)

    def keep_robots(self, origin: str, lease: float) -> None:
        with _named_errors():
            robots.keep(origin, lease)

    def save_robots(self, origin: str, state: RobotsState) -> None:
        with _named_errors():
            robots.save(origin, state)

    def add_host_stats(self, hosts: Mapping[str, HostStats]) -> None:
        with _named_errors():
            host_stats.add(hosts)

    def add_log(self, lines: Sequence[LogLine], lost: Mapping[int, int]) -> None:
        with _named_errors():
            log.add(lines, lost)

    def left(self) -> float | None:
        return self._pages.left()

    def tick(self) -> None:
        self._pages.tick()

    def close(self) -> None:
        self._pages.close()
        default_connection.close()


def _close(outcomes: Iterable[Outcome]) -> None:
    """Closes tasks as their spiders or limits decided. The first reason counts."""
    for task, reason in sorted({o.task: o.closing for o in outcomes if o.closing}.items()):
        Task.objects.filter(pk=task, state__in=(Task.State.RUNNING, Task.State.PAUSED)).update(
            state=Task.State.CANCELLING, closing=reason
        )


@contextmanager
def _named_errors(modelled: Collection[Outcome] = ()) -> Any:
    """Turns Django's database errors into the engine's: away (try again) or refused (never).
    ``modelled``: outcomes with model items; if their tables are to blame, it raises
    TablesChanged."""
    try:
        yield
    except (DataError, IntegrityError, ValueError, TypeError, OverflowError) as error:
        # The last three: a value that the driver cannot represent.
        if modelled:
            with _named_errors():
                model_rows.check_tables(modelled)
        raise LedgerRefused(" ".join(str(error).split())) from None
    except ArchiveError as error:
        raise LedgerAway(str(error)) from None
    except Error as error:  # includes a read-only server, and one whose tables are being changed
        default_connection.close()
        text = " ".join(str(error).split())
        if exceeds_limit(error):
            raise LedgerRefused(text) from None
        raise LedgerAway(text) from None
