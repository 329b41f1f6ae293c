"""Overview: the cluster at a glance. Of long tables, only the latest rows are read."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from django.db.models import Max
from redis import RedisError

from crawlframe.errors import CrawlframeError
from crawlframe.request.request import END_URL, ROOT_URL
from crawlframe.run.reasons import NO_ERRORS
from crawlservice.models import Event, Page, Task
from crawlservice.monitoring import nodes
from crawlservice.monitoring.nodes import Node
from crawlservice.monitoring.ttl_cache import ttl_cache
from crawlservice.tasks.progress import progress
from crawlservice.tasks.progress.forecast import Forecast, forecasts

MAX_OPEN = 1_000  # open tasks whose numbers are summed
MAX_ROWS = 20  # most tasks, and hosts, shown
MAX_ENDED = 8  # last ended tasks shown
ROWS = 20_000  # ledger rows for the judgement of hosts
SEARCHED_ROWS = 400_000  # ledger rows searched for these: many may be cancelled
SLOW_PAGES = 5  # pages from which on a host may be called slow


@dataclass(frozen=True)
class Overview:
    """``totals``: open tasks, and requests in their queues. ``running``: the latest MAX_ROWS of the
    open tasks; ``ended``: the last MAX_ENDED that have ended, the latest first; ``known``: nodes,
    or None while Redis is unreachable. ``partial``: more than MAX_OPEN tasks are open, and the
    totals cover the latest MAX_OPEN. ``away``: why Redis is not used. ``unreadable``: rows of Redis
    that were set aside."""

    totals: dict[str, int]
    running: list[Forecast]
    ended: list[Task]
    known: list[Node] | None
    skew: str
    partial: bool
    away: str = ""
    unreadable: int = 0

    @property
    def troubled(self) -> list[Node]:
        """Nodes that have a problem."""
        return [
            node for node in self.known or () if node.problem or node.pull_problem or node.troubles
        ]


@dataclass
class HostTotals:
    """A host, judged by the latest pages."""

    name: str
    pages: int = 0
    errors: int = 0
    milliseconds: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def mean(self) -> float:
        """Mean milliseconds per fetch."""
        return self.milliseconds / self.pages

    @property
    def share(self) -> float:
        """Percentage of the pages that are errors."""
        return 100 * self.errors / self.pages

    @property
    def reason(self) -> str:
        """The most frequent reason of its errors."""
        return self.reasons.most_common(1)[0][0] if self.reasons else ""


class Hosts(NamedTuple):
    """The slowest hosts, and those with the most errors, among the latest ``rows`` pages."""

    rows: int
    slowest: list[HostTotals]
    failing: list[HostTotals]


@ttl_cache(seconds=1)
def snapshot() -> Overview:
    """The cluster now."""
    rows = Task.objects.filter(state__in=Task.ACTIVE).defer("seeds", "arguments")
    tasks = [*rows.order_by("-pk")[: MAX_OPEN + 1]]
    found = progress.read(tasks[:MAX_OPEN])
    known, unreadable, away = _nodes()
    queues = ("ready", "in_progress", "delayed", "parked")
    totals = {name: sum(getattr(one, name) for one in found) for name in queues}
    totals["tasks"] = len(found)
    skew = nodes.skew_line(known or ())
    running = forecasts(found[:MAX_ROWS])
    partial = len(tasks) > MAX_OPEN
    return Overview(totals, running, _ended(), known, skew, partial, away, unreadable)


def _nodes() -> tuple[list[Node] | None, int, str]:
    """The nodes, or None and why Redis is not used; and how many of its rows were set aside."""
    try:
        return nodes.read(), nodes.unreadable(), ""
    except (RedisError, CrawlframeError) as error:
        return None, 0, nodes.why_away(error)


def _ended() -> list[Task]:
    """Ended tasks in the order of their ends, by events. Tasks that run again are left out."""
    events = Event.objects.filter(outcome__in=Task.Outcome.values).order_by("-pk")
    numbers = [*dict.fromkeys(events.values_list("task", flat=True)[: 2 * MAX_ENDED])]
    found = Task.objects.defer("seeds", "arguments", "settings").in_bulk(numbers)
    ended = (found[pk] for pk in numbers if pk in found and found[pk].state not in Task.ACTIVE)
    return [*islice(ended, MAX_ENDED)]


@ttl_cache(seconds=15)
def hosts() -> Hosts:
    """The slow hosts and the failing hosts."""
    newest = Page.objects.aggregate(pk=Max("pk"))["pk"] or 0
    fetched = Page.objects.exclude(url__in=(ROOT_URL, END_URL)).exclude(reason__in=NO_ERRORS)
    rows = fetched.filter(pk__gt=newest - SEARCHED_ROWS).order_by("-pk")
    found: defaultdict[str, HostTotals] = defaultdict(lambda: HostTotals(""))
    number = 0
    columns = rows.values_list("url", "state", "reason", "fetch_ms")[:ROWS]
    for url, state, reason, milliseconds in columns.iterator(chunk_size=ROWS):
        number += 1
        name = url.split("/", 3)[2] if url.count("/") > 1 else url
        host = found[name]
        host.name = name
        host.pages += 1
        host.milliseconds += milliseconds
        if state == Page.State.ERROR:
            host.errors += 1
            host.reasons[reason] += 1
    slow = sorted((h for h in found.values() if h.pages >= SLOW_PAGES), key=lambda h: -h.mean)
    failing = sorted((h for h in found.values() if h.errors), key=lambda h: -h.errors)
    return Hosts(number, slow[:MAX_ROWS], failing[:MAX_ROWS])
