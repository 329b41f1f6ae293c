"""Store: the ledger over Django's connection. One transaction per batch of outcomes: pages, items
and follow-ups; the unique rid decides which run of a request counts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial

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
from crawlframe.outcome import Outcome
from crawlframe.pages.reparse import PageNumbers, Reparse, SourcePage
from crawlframe.pages.results import Results
from crawlframe.revisit.visit import Visit
from crawlframe.robots.state import RobotsState
from crawlframe.stored_page import StoredPage
from crawlframe.task_life import Summary
from crawlservice.connections.watch import NoWatch, Watch
from crawlservice.identity.papers import StoredPapers
from crawlservice.ledger import host_stats, robots, starts
from crawlservice.ledger import state as task_state
from crawlservice.ledger.commit_order import CommitOrder
from crawlservice.ledger.ending import end, summary_of
from crawlservice.ledger.participants import participants
from crawlservice.ledger.refused_rows import exceeds_limit
from crawlservice.ledger.rows import insert, read, recorded_now
from crawlservice.ledger.rows import recorded as written
from crawlservice.models import KeptPage, Task
from crawlservice.pages import lookup
from crawlservice.pages.results import results_of
from crawlservice.pages.sources import Sources, source_pages
from crawlservice.proxies.pool import StoredProxies
from crawlservice.recipes.current import current, numbers
from crawlservice.tasks import aliases as task_aliases
from crawlservice.tasks import log as task_log
from crawlservice.tasks.secret_arguments import revealed
from crawlservice.watches import found


class DjangoLedger(Ledger):
    """The engine's Ledger on this thread's Django connection."""

    def __init__(self, watch: Watch | None = None) -> None:
        """``watch``: the one that watches this process's connections."""
        self._watch = watch or NoWatch()
        self._papers = StoredPapers()
        self._proxies = StoredProxies()
        self._participants = participants()
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

    def same_content(self, pages: Collection[tuple[int, bytes, bytes, str]]) -> dict[bytes, str]:
        with _named_errors():
            return lookup.same_content(pages)

    def urls_of(self, beginnings: Collection[bytes], task: int) -> dict[bytes, str]:
        with _named_errors():
            return lookup.urls_of(beginnings, task)

    def summary(self, task: int, counts: Counts) -> Summary | None:
        with _named_errors():
            return summary_of(task, counts)

    def commit(self, outcomes: list[Outcome]) -> dict[bytes, Recorded]:
        # A request that this worker got twice counts once.
        unique = {outcome.rid: outcome for outcome in outcomes}
        batch = [outcome for outcome in outcomes if unique[outcome.rid] is outcome]
        with _named_errors(partial(self._participants.explain, batch)):
            faults.at("commit.before", OperationalError)
            self._participants.prepare(batch)
            new = self._write(batch)
            faults.at("commit.after", OperationalError, default_connection.close)
            recorded = read([outcome.rid for outcome in batch if outcome.rid not in new])
            recorded |= {o.rid: recorded_now(o) for o in batch if o.rid in new}
            self._participants.after(batch, recorded)
        return recorded

    def _write(self, batch: list[Outcome]) -> set[bytes]:
        """Returns the rids of the rows that this call has written."""
        writing = self._participants.writing(batch)
        # Sorted, so that two workers with some of the same requests cannot deadlock.
        ordered = sorted(batch, key=lambda outcome: outcome.rid)
        with transaction.atomic() if writing else nullcontext():
            new = insert(ordered)
            self._participants.write(writing, new)
        return new

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
            outcome = Outcome(b"", task, "", b"", 0, 0)
            outcome.results.visit = visit
            found.record_ahead([outcome])

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
            task_log.add(lines, lost)

    def left(self) -> float | None:
        return self._participants.left()

    def tick(self) -> None:
        self._participants.tick()

    def close(self) -> None:
        self._participants.close()
        default_connection.close()


@contextmanager
def _named_errors(explain: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Turns Django's database errors into the engine's: away (try again) or refused (never).
    ``explain`` raises a more precise error for what the database refuses, if there is one."""
    try:
        yield
    except (DataError, IntegrityError, ValueError, TypeError, OverflowError) as error:
        # The last three: a value that the driver cannot represent.
        with _named_errors():
            explain()
        raise LedgerRefused(" ".join(str(error).split())) from None
    except ArchiveError as error:
        raise LedgerAway(str(error)) from None
    except Error as error:  # includes a read-only server, and one whose tables are being changed
        default_connection.close()
        text = " ".join(str(error).split())
        if exceeds_limit(error):
            raise LedgerRefused(text) from None
        raise LedgerAway(text) from None
