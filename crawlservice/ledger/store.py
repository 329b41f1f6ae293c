"""Store: the ledger over Django's connection. One transaction per batch of outcomes: pages, items
and follow-ups; the unique rid decides which run of a request counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from functools import partial

import msgspec
from django.db import OperationalError, transaction
from django.db import connection as default_connection

from crawlframe.base import faults
from crawlframe.frontier import Counts
from crawlframe.identity.identity import Papers
from crawlframe.pages.copy import Results
from crawlframe.pages.reparse import PageNumbers, Reparse, SourcePage
from crawlframe.response.stored_page import StoredPage
from crawlframe.run import ledger as engine
from crawlframe.run.outcome import Outcome
from crawlframe.spider.task_info import Summary
from crawlservice.connections.watch import NoWatch, Watch
from crawlservice.identity.papers import StoredPapers
from crawlservice.ledger import host_stats, state
from crawlservice.ledger.commit_order import CommitOrder
from crawlservice.ledger.ending import end, summary_of
from crawlservice.ledger.named_errors import named_errors, with_named_errors
from crawlservice.ledger.participants import participants
from crawlservice.ledger.robots import RobotsRows
from crawlservice.ledger.rows import insert, read, recorded, recorded_now
from crawlservice.ledger.starts import StartRows
from crawlservice.models import KeptPage, Task
from crawlservice.pages import lookup
from crawlservice.pages.rows import results_of
from crawlservice.pages.sources import Sources, source_pages
from crawlservice.proxies.pool import StoredProxies
from crawlservice.recipes.current import current, numbers
from crawlservice.tasks import aliases
from crawlservice.tasks.arguments.secrets import revealed
from crawlservice.tasks.progress import log


@with_named_errors
class AccessRows(engine.AccessLedger):
    """Keys, credentials and proxies of this installation, on this thread's connection."""

    def __init__(self) -> None:
        self._papers = StoredPapers()
        self._proxies = StoredProxies()

    def identity(self) -> Papers:
        return self._papers.read()

    def proxies(self) -> list[engine.StoredProxy]:
        return self._proxies.read()


@with_named_errors
class ActivityRows(engine.ActivityLedger):
    """Logs of tasks and statistics of hosts, on this thread's connection."""

    def add_host_stats(self, hosts: Mapping[str, engine.HostStats]) -> None:
        host_stats.add(hosts)

    def add_log(self, lines: Sequence[engine.LogLine], lost: Mapping[int, int]) -> None:
        log.add(lines, lost)


@with_named_errors
class TaskRows(engine.TaskLedger):
    """Tasks: their specification for workers, their state and their end, on this thread's
    connection."""

    def spec(self, task: int) -> engine.TaskSpec | None:
        rows = Task.objects.only("spider", "arguments", "priority", "overrides", "reparse", "watch")
        row = rows.filter(pk=task).first()
        if row is None:
            return None
        again = None if row.reparse is None else msgspec.convert(row.reparse, Reparse)
        return engine.TaskSpec(
            *(task, row.spider, revealed(row.arguments), row.priority, row.overrides),
            recipe=current(row.spider),
            reparse=again,
            watch=row.watch_id or 0,
            aliases=aliases.of_task(task),
        )

    def recipe_numbers(self, names: Collection[str]) -> dict[str, int]:
        return numbers(names)

    def summary(self, task: int, counts: Counts) -> Summary | None:
        return summary_of(task, counts)

    def keep_state(self, states: Mapping[tuple[int, str], Mapping[str, str]]) -> None:
        faults.at("state.before", OperationalError)
        state.keep(states)

    def finish(self, tasks: Mapping[int, Counts], strays: int = 0) -> set[int]:
        """``strays``: rows of each task that are known to belong to no admitted request."""
        faults.at("finish.before", OperationalError)
        with transaction.atomic():
            ended = end(tasks, strays)
        faults.at("finish.after", OperationalError)
        return ended


@with_named_errors
class KeptPages(engine.PageLedger):
    """Kept pages, as workers read them, on this thread's connection."""

    def __init__(self) -> None:
        self._sources = Sources(CommitOrder(KeptPage).settled)

    def latest(self, keys: Collection[bytes]) -> dict[bytes, StoredPage]:
        return lookup.latest(keys)

    def bodies(self, numbers: Collection[int]) -> dict[int, bytes]:
        return lookup.bodies(numbers)

    def results(self, page: StoredPage) -> Results | None:
        return results_of(page)

    def to_parse(self, reparse: Reparse, after: int, most: int) -> PageNumbers:
        return self._sources.numbers(reparse, after, most)

    def sources(self, numbers: Collection[int]) -> tuple[dict[int, SourcePage], set[int]]:
        return source_pages(numbers)


class DjangoLedger(engine.Ledger):
    """The engine's Ledger on this thread's Django connection."""

    tasks: TaskRows

    def __init__(self, watch: Watch | None = None) -> None:
        """``watch``: watches this process's connections."""
        self._watch = watch or NoWatch()
        self._participants = participants()
        self.tasks = TaskRows()
        self.starts = StartRows()
        self.pages = KeptPages()
        self.robots = RobotsRows()
        self.access = AccessRows()
        self.activity = ActivityRows()

    @property
    def waits(self) -> str:
        return self._watch.waits

    def commit(self, outcomes: list[Outcome]) -> dict[bytes, engine.Recorded]:
        # A request that this worker got twice counts once.
        unique = {outcome.rid: outcome for outcome in outcomes}
        batch = [outcome for outcome in outcomes if unique[outcome.rid] is outcome]
        with named_errors(partial(self._participants.explain, batch)):
            faults.at("commit.before", OperationalError)
            self._participants.prepare(batch)
            writing = self._participants.writing(batch)
            # Sorted, so that two workers with some of the same requests cannot deadlock.
            ordered = sorted(batch, key=lambda outcome: outcome.rid)
            with transaction.atomic() if writing else nullcontext():
                new = insert(ordered)
                self._participants.write(writing, new)
            faults.at("commit.after", OperationalError)
            rows = read([outcome.rid for outcome in batch if outcome.rid not in new])
            rows |= {o.rid: recorded_now(o) for o in batch if o.rid in new}
            self._participants.after(batch, rows)
        return rows

    def recorded_requests(self, rids: Collection[bytes]) -> set[bytes]:
        with named_errors():
            return recorded(rids)

    def urls_of(self, beginnings: Collection[bytes], task: int) -> dict[bytes, str]:
        with named_errors():
            return lookup.urls_of(beginnings, task)

    def left(self) -> float | None:
        return self._participants.left()

    def tick(self) -> None:
        self._participants.tick()

    def close(self) -> None:
        self._participants.close()
        default_connection.close()
