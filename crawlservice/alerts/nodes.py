"""Conditions of nodes: offline, with refused code, or with a disk that is nearly full."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from crawlframe.frontier import NodeInfo
from crawlservice.alerts.finding import MOST, Finding, View
from crawlservice.ledger.recovery import ERAS, LATELY, is_whole, newest
from crawlservice.models import Era
from crawlservice.monitoring import lives

LONGEST = 300  # characters of a problem
RESTARTS = 3  # of a steward in ten minutes


def gone(view: View) -> Iterator[Finding]:
    """Nodes that died, and have neither come back nor been forgotten."""
    for life in lives.offline()[: MOST + 1]:
        facts = {"node": life.node, "generation": life.pk, "requests": life.given_back}
        yield Finding("node_gone", life.node, life.ended_at or view.now, facts)


def code_refused(view: View) -> Iterator[Finding]:
    """Nodes that do not run the newest code: it was refused, does not load, or was not pulled.
    Raises redis.RedisError."""
    for info in _living(view):
        code = info.code
        problem = code.problem or code.pull_problem
        if code.state != "refused" and not problem:
            continue
        facts = {
            "node": info.node,
            "generation": info.generation,
            "version": code.version,
            "candidate": code.candidate,
            "pulled": not code.problem and bool(code.pull_problem),
            "problem": problem.partition("\n")[0][:LONGEST],
        }
        since = datetime.fromtimestamp(code.changed_at, UTC) if code.changed_at else view.now
        yield Finding("code_refused", info.node, since, facts)


def chores(view: View) -> Iterator[Finding]:
    """Redis that nobody may claim from, and nodes whose steward dies again and again, or fails.
    Raises redis.RedisError and django.db.Error."""
    if newest() and not is_whole(view.frontier):
        yield Finding("chores", "", view.now, {"why": "era"})
    elif Era.objects.filter(started_at__gt=view.now - LATELY).count() > ERAS:
        yield Finding("chores", "", view.now, {"why": "eras"})
    for info in _living(view):
        health, facts = info.health, {"node": info.node, "generation": info.generation}
        if health.restarts >= RESTARTS:
            yield Finding("chores", info.node, view.now, {**facts, "why": "restarts"})
        elif health.failures:
            facts["problem"] = health.waits[:LONGEST]
            yield Finding("chores", info.node, view.now, {**facts, "why": "failures"})


def disk(view: View) -> Iterator[Finding]:
    """Nodes whose var directory is on a disk that is nearly full. Raises redis.RedisError."""
    for info in _living(view):
        if info.health.disk >= view.floor("disk"):
            facts = {"node": info.node, "generation": info.generation, "percent": info.health.disk}
            yield Finding("disk", info.node, view.now, facts, float(info.health.disk))


def _living(view: View) -> Iterator[NodeInfo]:
    """The latest life of each node."""
    found = {}
    for info in sorted(view.frontier.leases.nodes(), key=lambda info: info.generation):
        if info.lease_left > 0 and not info.leaving:
            found[info.node] = info
    yield from list(found.values())[: MOST + 1]
