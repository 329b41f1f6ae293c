"""Metrics for Prometheus: the work of the cluster, and the state of each node."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from operator import attrgetter

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.models import Count, Model
from django.http import HttpRequest, HttpResponse
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from redis import RedisError

from crawlframe.errors import CrawlframeError
from crawlservice.alerts import state
from crawlservice.api import health
from crawlservice.api.parts.auth import caller_of
from crawlservice.api.parts.errors import NotAllowed, answer
from crawlservice.connections import clock
from crawlservice.ledger.recovery import newest
from crawlservice.models import (
    HELD,
    OPEN,
    Alert,
    Generation,
    Host,
    Item,
    Page,
    Schedule,
    Severity,
    Task,
)
from crawlservice.monitoring import nodes
from crawlservice.monitoring.nodes import Node
from crawlservice.tasks import spider_runs
from crawlservice.tasks.progress.progress import read

ACTIVE = [str(state) for state in Task.ACTIVE]
PROXIED = ("X-Forwarded-For", "X-Real-IP", "Forwarded", "Via")


def metrics(request: HttpRequest) -> HttpResponse:
    """Metrics, for addresses in CRAWLFRAME_METRICS_ALLOW, and for tokens of scope read."""
    if not (_is_near(request) or _may_read(request)):
        return answer(401, "unauthorized", "send a token, or see CRAWLFRAME_METRICS_ALLOW")
    registry = CollectorRegistry()
    registry.register(Cluster())
    encode, kind = choose_encoder(request.headers.get("Accept", ""))
    return HttpResponse(encode(registry), content_type=kind, headers={"Cache-Control": "no-store"})


def _is_near(request: HttpRequest) -> bool:
    """Whether the client is in an allowed network and no proxy passed its request on."""
    if any(name in request.headers for name in PROXIED):
        return False
    try:
        address = ipaddress.ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:
        return False
    return any(address in network for network in settings.METRICS_ALLOW)


def _may_read(request: HttpRequest) -> bool:
    try:
        caller = caller_of(request)
    except NotAllowed:
        return False
    return (
        caller is not None
        and caller.allows("read")
        and caller.user.has_perm("crawlservice.view_task")
        and caller.user.has_perm("crawlservice.view_generation")
    )


class Cluster(Collector):
    """The metrics of a scrape. Metrics of an unreachable server are left out, not zero."""

    def collect(self) -> Iterable[Metric]:
        up = GaugeMetricFamily("crawlframe_up", "1: it answers", labels=["server"])
        for server, parts in (("database", _of_database), ("redis", _of_redis)):
            try:
                yield from list(parts())
            except (DatabaseError, RedisError, CrawlframeError):
                up.add_metric([server], 0)
            else:
                up.add_metric([server], 1)
        yield up


def _of_database() -> Iterator[Metric]:
    for name, model, what in (
        (
            "pages",
            Page,
            "ledger rows written: requests that ended, also cancelled or excluded ones",
        ),
        ("items", Item, "items stored"),
        ("tasks_submitted", Task, "tasks submitted"),
        ("generations", Generation, "lives of nodes"),
    ):
        yield CounterMetricFamily(f"crawlframe_{name}", what, value=_given(model))
    counts = Task.objects.order_by().values_list("state").annotate(n=Count("pk"))
    found = dict.fromkeys(Task.State.values, 0) | dict(counts)
    yield _gauges("tasks", "tasks by state", "state", found)
    yield from _of_schedules()
    yield GaugeMetricFamily(
        "crawlframe_hosts_held",
        "hosts that block, or have asked for a wait of more than an hour",
        value=Host.objects.filter(HELD).count(),
    )
    yield from _of_alerts()
    yield from _of_spiders()
    ended = Task.objects.order_by().exclude(outcome="").values_list("outcome")
    outcomes = dict.fromkeys(Task.Outcome.values, 0) | dict(ended.annotate(n=Count("pk")))
    yield _gauges("ended_tasks", "tasks that have ended, by outcome", "outcome", outcomes)
    yield GaugeMetricFamily("crawlframe_era", "number of the latest era", value=newest())


def _of_schedules() -> Iterator[Metric]:
    rows = Schedule.objects.order_by("name").values_list("name", "spider", "enabled", "problem")
    states = dict.fromkeys(("enabled", "disabled"), 0)
    labels = ["schedule", "spider"]
    failing = GaugeMetricFamily(
        "crawlframe_schedule_failing", "1: it cannot start its spider", labels=labels
    )
    for name, spider, enabled, problem in rows:
        states["enabled" if enabled else "disabled"] += 1
        failing.add_metric([name, spider], bool(problem))
    yield _gauges("schedules", "schedules by state", "state", states)
    yield failing


def _of_spiders() -> Iterator[Metric]:
    """At most 8 series a spider."""
    ends = spider_runs.last_ends()
    last = {spider: end.last for spider, end in ends.items()}
    good = {spider: end.good for spider, end in ends.items() if end.good}
    open_ = Task.objects.filter(state__in=ACTIVE).order_by().values_list("spider")
    opened = dict(open_.annotate(n=Count("pk")).order_by("spider")[: spider_runs.MAX_SPIDERS])
    yield _gauges("spider_open_tasks", "tasks that have not ended", "spider", opened)
    for name, what, value in SPIDER:
        values = {spider: value(task) for spider, task in last.items()}
        yield _gauges(
            f"spider_last_{name}", f"of the last run that ended: {what}", "spider", values
        )
    yield _gauges(
        "spider_last_good_timestamp_seconds",
        "end of the last run that finished, perhaps with errors of pages",
        "spider",
        {spider: _end(task).timestamp() for spider, task in good.items()},
    )
    yield GaugeMetricFamily(
        "crawlframe_spiders_left_out",
        f"1: there are more spiders, but only {spider_runs.MAX_SPIDERS:,} have metrics",
        value=max(len(ends), len(opened)) >= spider_runs.MAX_SPIDERS,
    )


def _end(task: Task) -> datetime:
    return task.finished_at or task.created_at


# Name, meaning and value for a task that has ended.
SPIDER: tuple[tuple[str, str, Callable[[Task], float]], ...] = (
    ("timestamp_seconds", "Unix time of its end", lambda task: _end(task).timestamp()),
    ("failed", "1: it failed", lambda task: task.outcome == Task.Outcome.FAILED),
    (
        "duration_seconds",
        "its duration",
        lambda task: (_end(task) - task.created_at).total_seconds(),
    ),
    ("pages", "pages that were run", lambda task: task.nf + task.errors),
    ("errors", "pages that ended in error", lambda task: task.errors),
    ("items", "items", lambda task: task.items),
)


def _of_alerts() -> Iterator[Metric]:
    rows = Alert.objects.filter(OPEN).order_by().values_list("severity").annotate(n=Count("pk"))
    counts = {Severity(severity).name.lower(): n for severity, n in rows}
    found = {severity.name.lower(): 0 for severity in Severity} | counts
    yield _gauges("alerts", "open alerts by severity", "severity", found)
    if (checked := state.checked_at()) is not None:
        yield GaugeMetricFamily(
            "crawlframe_alerts_checked_seconds",
            "seconds since a leading node last looked for alerts",
            value=max(0.0, (clock.now() - checked).total_seconds()),
        )


def _given(model: type[Model]) -> int:
    """The last number that the database gave to a row. It never decreases, and reading it is
    cheap."""
    table = model._meta.db_table
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                "SELECT pg_sequence_last_value(pg_get_serial_sequence(%s, 'id'))", [table]
            )
        else:
            cursor.execute("SELECT seq FROM sqlite_sequence WHERE name = %s", [table])
        row = cursor.fetchone()
    return int(row[0] or 0) if row else 0


def _of_redis() -> Iterator[Metric]:
    known = nodes.read()
    tasks = read(
        Task.objects.filter(state__in=ACTIVE).only(
            "state", "na", "nf", "ne", "cancelled", "excluded", "items"
        )
    )
    live = [progress for progress in tasks if progress.live]

    def total(name: str) -> int:
        return sum(getattr(progress, name) for progress in live)

    counters = {name.upper(): total(name) for name in ("na", "nf", "ne", "nr")}
    counters |= {name: total(name) for name in ("errors", "cancelled", "excluded")}
    what = "of active tasks: NA, NF, NE (= errors + cancelled + excluded), NR"
    yield _gauges("active_requests", what, "count", counters)
    places = {name: total(name) for name in ("ready", "in_progress", "delayed", "parked")}
    yield _gauges(
        "remaining_requests",
        "remaining requests of active tasks, by where they wait",
        "place",
        places,
    )
    yield GaugeMetricFamily(
        "crawlframe_active_items", "items of active tasks", value=total("items")
    )
    yield GaugeMetricFamily(
        "crawlframe_era_whole", "1: nothing is lost in Redis", value=health.era_is_whole()
    )
    yield _gauges("nodes", "nodes by state", "state", Counter(node.state for node in known))
    versions = {version: len(names) for version, names in nodes.versions(known).items()}
    yield _gauges("code_versions", "working nodes by code version", "version", versions)
    yield GaugeMetricFamily("crawlframe_code_skew", "1: versions differ", value=len(versions) > 1)
    yield from _of_nodes(known)
    yield GaugeMetricFamily(
        "crawlframe_redis_unreadable_rows",
        "could not be read and were set aside",
        value=nodes.unreadable(),
    )


def _of_nodes(known: list[Node]) -> Iterator[Metric]:
    """Metrics of nodes, by the life of each that counts."""
    ordered = sorted(known, key=lambda node: (node.counts, node.generation))
    lives = {node.node: node for node in ordered}.values()
    up = {node.node: node.state != nodes.OFFLINE for node in lives}
    yield _gauges(
        "node_up", "0: the node died, and has neither come back nor been forgotten", "node", up
    )
    for name, what, field in (
        ("generation", "number of its present life", "generation"),
        ("workers", "worker processes", "workers"),
        ("skew", "1: it runs another version than most nodes", "skew"),
        ("steward_deaths", "times its steward died in the last 10 minutes", "health.restarts"),
        ("chore_failures", "chores, or rows in them, that failed in 10 minutes", "health.failures"),
        ("reloads", "reloads since its master started", "reloads"),
        ("reload_seconds", "duration of the last reload", "seconds"),
    ):
        values = {node.node: attrgetter(field)(node) for node in lives}
        yield _gauges(f"node_{name}", what, "node", values)
    labels = ["node", "state", "version", "machine"]
    info = GaugeMetricFamily("crawlframe_node_info", "always 1", labels=labels)
    for node in lives:
        info.add_metric([node.node, node.state, node.version, node.machine], 1)
    yield info


def _gauges(name: str, what: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(f"crawlframe_{name}", what, labels=[label])
    for value, number in values.items():
        family.add_metric([value], number)
    return family
