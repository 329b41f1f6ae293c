"""Nodes: which live, which code each one runs, and how its last reload went."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from django.db import Error as DatabaseError
from django.utils import timezone
from django.utils.translation import gettext, ngettext
from redis import RedisError

from crawlframe.base.program import command
from crawlframe.errors import CrawlframeError
from crawlframe.frontier import NodeInfo
from crawlframe.frontier.client.wording import refusal_of
from crawlframe.frontier.cluster.affinity import OFF, Affinity
from crawlframe.frontier.cluster.nodes import DEATHS_WITHIN, NodeHealth
from crawlservice.connections.frontier import frontier
from crawlservice.connections.installation import OtherInstallation
from crawlservice.models import Generation
from crawlservice.monitoring import lives

OFFLINE, LEAVING, LOADING = "offline", "leaving", "loading"
ABNORMAL, BUSY, IDLE = "abnormal", "busy", "idle"
NO_HEALTH = NodeHealth()
OF_CODE = (
    "version", "candidate", "asks", "refused_by", "problem", "seconds", "reloads", "follows",
    "pulled", "pull_problem",
)  # fmt: skip
LATE_BEATS = 2.5  # heartbeat intervals after which a node is late
DEATHS = 3  # of workers, from which on a node is abnormal
ROLLOUT = timedelta(minutes=15)  # after which versions should no longer differ


@dataclass(frozen=True)
class Node:
    """One life of a node, as the cluster knows it at this moment.

    ``state``: loading (no code yet), live, checking (live, and trying a candidate), refused (live,
    and the candidate was not accepted), leaving (finishes what it has), or offline (its lease has
    expired: dead, or cut off). ``asks``: an operator may accept the candidate; ``refused_by``: its
    name, if one has refused it. ``problem``: file, line and error of a refused module, or of a
    module that does not load in the live version; a traceback may follow; or the data that the
    candidate loses. ``since``: of the code's state, or of the death of a node whose ``given_back``
    requests others have taken. ``skew``: see ``read``; ``apart``: for longer than a rollout takes.
    ``holds``: requests in progress. ``late``: seconds since its last heartbeat if one is overdue,
    else 0; ``left``: then, the seconds left of its lease. ``health``: as it reports it. ``share``:
    the part of all hosts that prefer it, 0 to 1; None without CRAWLFRAME_AFFINITY."""

    node: str
    generation: int
    machine: str
    pid: int
    state: str
    since: datetime | None
    workers: int = 0
    version: str = ""
    candidate: str = ""
    asks: bool = False
    refused_by: str = ""
    problem: str = ""
    seconds: float = 0.0  # duration of the last reload, from the last write on; 0 before the first
    reloads: int = 0
    follows: str = ""
    pulled: str = ""
    pull_problem: str = ""
    health: NodeHealth = NO_HEALTH
    skew: bool = False
    holds: int = 0
    apart: bool = False
    late: float = 0.0
    left: float = 0.0
    given_back: int = 0
    share: float | None = None

    @property
    def condition(self) -> str:
        """Its condition, in one word: offline, leaving, loading, abnormal (code was refused, does
        not load or was not pulled, or there are troubles), busy or idle."""
        if self.state in (OFFLINE, LEAVING):
            return self.state
        if self.state == "refused" or self.problem or self.pull_problem or self.troubles:
            return ABNORMAL
        if not self.version:
            return LOADING
        return BUSY if self.holds else IDLE

    @property
    def counts(self) -> bool:
        """Whether it works, with code that has loaded."""
        return bool(self.version) and self.state not in (OFFLINE, LEAVING)

    @property
    def headline(self) -> str:
        """The first of the reasons."""
        return next(iter(self.reasons), "")

    @property
    def reasons(self) -> list[str]:
        """The reasons, one per line: the refusal by an operator, refused modules, modules that do
        not load, failed pulls, and its troubles."""
        told = [text.partition("\n")[0] for text in (self.problem, self.pull_problem)]
        if self.refused_by:
            told.insert(0, gettext("refused by {name}").format(name=self.refused_by))
        return [*filter(None, told), *self.troubles]

    @property
    def troubles(self) -> list[str]:
        """Its problems apart from its code, in the reader's language, one line each."""
        return [] if self.state in (OFFLINE, LEAVING) else [*self._troubles()]

    def _troubles(self) -> Iterator[str]:
        health = self.health
        if self.late:
            yield gettext(
                "No heartbeat for {silent} s; in {left} s its lease expires, and other nodes take"
                " its requests. Check whether its machine is overloaded or cut off from Redis."
            ).format(silent=round(self.late), left=round(self.left))
        if health.waits:
            text = gettext("Its results or chores are waiting: {problem}")
            yield text.format(problem=health.waits)
        if health.missing:
            yield ngettext(
                "{n} of its {workers} workers is missing: see the log of the node",
                "{n} of its {workers} workers are missing: see the log of the node",
                health.missing,
            ).format(n=health.missing, workers=self.workers)
        if health.deaths >= DEATHS:
            yield gettext(
                "{n} of its workers died or were killed in the last {minutes} minutes: see the "
                "log of the node"
            ).format(n=health.deaths, minutes=round(DEATHS_WITHIN / 60))
        if health.restarts:
            yield gettext(
                "Its steward died or was killed in the last {minutes} minutes ({n}): see its log"
            ).format(n=health.restarts, minutes=round(DEATHS_WITHIN / 60))
        if self.apart:
            yield gettext(
                "It has run another version than other nodes for more than {minutes} minutes; "
                "{rollout} brings all nodes to one"
            ).format(minutes=round(ROLLOUT.total_seconds() / 60), rollout=command("node rollout"))


def read() -> list[Node]:
    """Every life of a node that the cluster knows, by name and age, and the last lives of nodes
    that died and have neither come back nor been forgotten.

    Skew: a node is marked if it does not run the version that most working nodes run. If no version
    leads, the late nodes are unknown, and all are marked. Nodes that are offline, leaving or still
    loading do not count and are not marked. So during a rollout, the nodes that have the new
    version are marked first, and the nodes that lack it last; no mark is left when all have it.
    When nothing has changed for longer than a rollout takes, marked nodes are apart.

    Raises RedisError and CrawlframeError."""
    leases = frontier().leases
    known = leases.nodes()
    present = [*map(_node, known)]
    nodes = sorted([*present, *_dead(present)], key=lambda n: (n.node, n.generation))
    most = Counter(node.version for node in nodes if node.counts).most_common(2)
    tie = len(most) == 2 and most[0][1] == most[1][1]
    leading = None if tie or not most else most[0][0]
    held = leases.held([node.generation for node in nodes])
    changes = [node.since for node in nodes if node.counts and node.since]
    resting = bool(changes) and max(changes) < timezone.now() - ROLLOUT
    table = Affinity(frontier().store).read()
    taking_part = {node.generation for node in known if node.affinity not in ("", OFF)}
    found = []
    for node in nodes:
        skew = node.counts and node.version != leading
        apart = skew and resting
        share = None
        if table is not None and node.generation in taking_part:
            share = table.share_of(node.generation)
        holds = held[node.generation]
        found.append(replace(node, skew=skew, apart=apart, holds=holds, share=share))
    return found


def _dead(present: Iterable[Node]) -> Iterator[Node]:
    names = {node.node for node in present}
    with suppress(DatabaseError):
        for life in lives.offline():
            if life.node not in names:
                yield _gone(life)


def unreadable() -> int:
    """The number of unreadable rows of Redis that were set aside. Raises RedisError and
    CrawlframeError."""
    return len(frontier().rows.quarantined())


def why_unknown() -> str:
    """The message where ``by_generation`` is None, without a stop."""
    try:
        read()
    except (RedisError, CrawlframeError) as error:
        return why_away(error)
    return gettext("Redis does not answer")


def why_away(error: Exception) -> str:
    """Why Redis is not used after this error, without a stop."""
    if isinstance(error, OtherInstallation):
        return str(error)
    return refusal_of(error) or gettext("Redis does not answer")


def by_generation() -> dict[int, Node] | None:
    """``read`` by generation; None while Redis is unreachable."""
    try:
        return {node.generation: node for node in read()}
    except (RedisError, CrawlframeError):
        return None


def versions(nodes: Iterable[Node]) -> dict[str, list[str]]:
    """The running versions, the most frequent first, each with the names of its nodes."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for node in nodes:
        if node.counts:
            names[node.version].append(node.node)
    return dict(sorted(names.items(), key=lambda pair: (-len(pair[1]), pair[0])))


def skew_line(nodes: Iterable[Node]) -> str:
    """``2 versions run: 1f00c0ffee00 (alpha, beta), …``; "" if there is no skew."""
    running = versions(nodes)
    if len(running) < 2:
        return ""
    parts = [f"{version} ({', '.join(names)})" for version, names in running.items()]
    return gettext("{n} versions run: {versions}").format(n=len(running), versions=", ".join(parts))


def _node(info: NodeInfo) -> Node:
    code = info.code
    state = OFFLINE if info.lease_left <= 0 else LEAVING if info.leaving else code.state
    return Node(
        *(info.node, info.generation, info.machine, info.pid, state, _since(info), info.workers),
        **{name: getattr(code, name) for name in OF_CODE},
        late=_late(info),
        left=info.lease_left if _late(info) else 0.0,
        health=info.health,
    )


def _gone(life: Generation) -> Node:
    place = (life.node, life.pk, life.machine, life.pid)
    return Node(*place, OFFLINE, life.ended_at, given_back=life.given_back)


def _since(info: NodeInfo) -> datetime | None:
    if info.lease_left <= 0:  # not yet replayed
        return timezone.now() + timedelta(seconds=info.lease_left)
    return datetime.fromtimestamp(info.code.changed_at, UTC) if info.code.changed_at else None


def _late(info: NodeInfo) -> float:
    lease, beat = info.health.lease, info.health.beat
    silent = lease - info.lease_left
    return silent if lease and silent > min(LATE_BEATS * beat, (beat + lease) / 2) else 0.0
