"""Nodes, and the Redis that they share: no leader, dead nodes, refused code, full disks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from redis import RedisError

from crawlframe.errors import CrawlframeError
from crawlframe.frontier.client.wording import refusal_of
from crawlservice.alerts import state
from crawlservice.alerts.condition import (
    MAX_LINE,
    MAX_SUBJECTS,
    Alarm,
    Condition,
    Facts,
    ServiceView,
    Threshold,
    Unknown,
    filled,
    first_line,
)
from crawlservice.alerts.wording import list_of, page_of
from crawlservice.connections.installation import OtherInstallation
from crawlservice.ledger.recovery import ERAS, LATELY, newest
from crawlservice.models import Era, Generation, Schedule, Severity, Task
from crawlservice.monitoring import lives

RESTARTS = 3  # of a steward in ten minutes


def _page_of_node(facts: Facts) -> str:
    return page_of("generation", facts["generation"])


def _no_leader(view: ServiceView) -> Iterator[Alarm | Unknown]:
    """Finds that no leader has looked for alerts for too long, although there is work. The web
    finds it, and the next leader resolves it."""
    checked = state.checked_at()
    minutes = view.minutes_since(checked or view.now)
    if checked is None or minutes < view.least["no_leader"] or not _has_work():
        yield Unknown()
    elif facts := _why(view):
        yield Alarm("no_leader", "", checked, facts, round(minutes, 1))


def _has_work() -> bool:
    active = Task.objects.filter(state__in=Task.ACTIVE).exists()
    return active or Schedule.objects.filter(enabled=True).exists()


def _why(view: ServiceView) -> Facts:
    """``why``: redis does not answer, its refusal, it belongs to an other installation, or there
    are no nodes. Empty if a node leads, but looks for no alerts, as older releases do."""
    try:
        store = view.frontier.store
        name = f"{store.keys[0].prefix}:steward"
        if store.redis.exists(name):
            return {}
        store.redis.set(f"{name}:well", 1, px=1)  # refused if its disk or its memory is full
    except OtherInstallation:
        return {"why": "other"}
    except (RedisError, CrawlframeError) as error:
        return {"why": refusal_of(error) or "redis"}
    return {"why": "nodes"}


def _no_leader_sentence(facts: Facts) -> str:
    why = {
        "redis": gettext("Redis does not answer."),
        "other": gettext("Redis belongs to another installation."),
        "nodes": gettext("No node is running, or none can lead."),
    }.get(facts["why"], f"{facts['why']}.")
    effect = gettext("Nothing is started, watched or replayed.")
    return f"{effect} {why}"


NO_LEADER = Condition(
    "no_leader",
    _("no node leads"),
    Severity.SEVERE,
    _no_leader,
    _no_leader_sentence,
    lambda facts: list_of("generation"),
    Threshold(0.5, _("minutes"), 0.5, 1440),
    urgency=10,
    by_leader=False,
    by_web=True,
)


def _chores(view: ServiceView) -> Iterator[Alarm]:
    """Finds a Redis that no node may claim from, and nodes whose steward dies repeatedly, or fails.
    The web finds it, too: such a leader may not come to look. Raises redis.RedisError and
    django.db.Error."""
    if (latest := newest()) and view.frontier.eras.settled() != latest:
        yield Alarm("chores", "", view.now, {"why": "era"})
    elif Era.objects.filter(started_at__gt=view.now - LATELY).count() > ERAS:
        yield Alarm("chores", "", view.now, {"why": "eras"})
    for info in view.living:
        health, facts = info.health, {"node": info.node, "generation": info.generation}
        if health.restarts >= RESTARTS:
            yield Alarm("chores", info.node, view.now, {**facts, "why": "restarts"})
        elif health.failures:
            facts["problem"] = health.waits[:MAX_LINE]
            yield Alarm("chores", info.node, view.now, {**facts, "why": "failures"})


def _chores_sentence(facts: Facts) -> str:
    text = {
        "era": gettext("No node may claim requests: Redis has lost data, and is not filled again."),
        "eras": gettext("Redis has lost data again and again within 10 minutes."),
        "restarts": gettext("The steward of {node} dies again and again: see the log of the node."),
    }.get(facts["why"], gettext("Chores of the cluster fail on {node}: {problem}"))
    return text.format(node=facts.get("node"), problem=facts.get("problem") or "–")


CHORES = Condition(
    "chores",
    _("chores fail"),
    Severity.SEVERE,
    _chores,
    _chores_sentence,
    lambda facts: page_of("generation", facts.get("generation")) or list_of("generation"),
    urgency=20,
    by_web=True,
)


def _gone(view: ServiceView) -> Iterator[Alarm]:
    """Finds nodes that died, and have neither come back nor been forgotten."""
    for life in lives.offline()[: MAX_SUBJECTS + 1]:
        facts = {"node": life.node, "generation": life.pk, "requests": life.given_back}
        yield Alarm("node_gone", life.node, life.ended_at or view.now, facts)


def _gone_sentence(facts: Facts) -> str:
    text = ngettext(
        "Node {node} died or is cut off; {n} request was given back.",
        "Node {node} died or is cut off; {n} requests were given back.",
        facts["requests"],
    )
    return text.format(node=facts["node"], n=facts["requests"])


NODE_GONE = Condition(
    "node_gone",
    _("node offline"),
    Severity.SEVERE,
    _gone,
    _gone_sentence,
    _page_of_node,
    urgency=30,
    rows=lambda: [Generation.objects.filter(offline=True)],
)


def _refused(view: ServiceView) -> Iterator[Alarm]:
    """Finds nodes without the newest code: it was refused, does not load, or was not pulled. Raises
    redis.RedisError."""
    for info in view.living:
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
            "problem": first_line(problem),
        }
        since = datetime.fromtimestamp(code.changed_at, UTC) if code.changed_at else view.now
        yield Alarm("code_refused", info.node, since, facts)


def _refused_sentence(facts: Facts) -> str:
    if facts["pulled"]:
        text = gettext("{node} could not pull: {problem}")
    elif facts["candidate"]:
        text = gettext("{node} refused {candidate}: {problem}")
    else:
        text = gettext("Some code does not load on {node}: {problem}")
    return text.format(
        node=facts["node"], candidate=facts["candidate"], problem=facts["problem"] or "–"
    )


CODE_REFUSED = Condition(
    "code_refused",
    _("code refused"),
    Severity.SEVERE,
    _refused,
    _refused_sentence,
    _page_of_node,
    urgency=80,
)


def _disk(view: ServiceView) -> Iterator[Alarm]:
    """Raises redis.RedisError."""
    for info in view.living:
        if info.health.disk >= view.floor("disk"):
            facts = {"node": info.node, "generation": info.generation, "percent": info.health.disk}
            yield Alarm("disk", info.node, view.now, facts, float(info.health.disk))


DISK = Condition(
    "disk",
    _("disk nearly full"),
    Severity.SEVERE,
    _disk,
    filled(
        # xgettext:no-python-format
        _(
            "The disk with the var directory of node {node} is {percent} % full; once it is full, "
            "nothing is fetched."
        )
    ),
    _page_of_node,
    Threshold(90, _("percent"), 1, 100),
    urgency=110,
)


def _redis_memory(view: ServiceView) -> Iterator[Alarm]:
    """Raises redis.RedisError."""
    memory = view.frontier.store.redis.info("memory")
    most, used = int(memory.get("maxmemory", 0)), int(memory.get("used_memory", 0))
    if most <= 0:  # no limit was set
        return
    percent = round(100 * used / most)
    if percent >= view.floor("redis_memory"):
        facts = {"percent": percent, "bytes": most}
        yield Alarm("redis_memory", "", view.now, facts, float(percent))


def _memory_sentence(facts: Facts) -> str:
    # xgettext:no-python-format
    text = gettext("Redis uses {percent} % of its {size} MiB; when it is full, crawling stops.")
    return text.format(percent=facts["percent"], size=round(facts["bytes"] / (1 << 20)))


REDIS_MEMORY = Condition(
    "redis_memory",
    _("Redis memory nearly full"),
    Severity.SEVERE,
    _redis_memory,
    _memory_sentence,
    lambda facts: list_of("generation"),
    Threshold(85, _("percent"), 1, 100),
    urgency=120,
)
