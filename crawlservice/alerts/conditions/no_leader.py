"""No node leads, although there is work. The web finds it, and the next leader resolves it."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from redis import RedisError

from crawlframe.errors import CrawlframeError
from crawlframe.frontier.client.wording import refusal_of
from crawlservice.alerts import state
from crawlservice.alerts.condition import Alarm, Condition, Facts, ServiceView, Threshold, Unknown
from crawlservice.alerts.wording import list_of
from crawlservice.connections.installation import OtherInstallation
from crawlservice.models import Schedule, Severity, Task


def find(view: ServiceView) -> Iterator[Alarm | Unknown]:
    """Finds that no leader has looked for alerts for too long."""
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


def sentence(facts: Facts) -> str:
    why = {
        "redis": gettext("Redis does not answer."),
        "other": gettext("Redis belongs to another installation."),
        "nodes": gettext("No node is running, or none can lead."),
    }.get(facts["why"], f"{facts['why']}.")
    what = gettext("Nothing is started, watched or replayed.")
    return f"{what} {why}"


CONDITION = Condition(
    "no_leader",
    _("no node leads"),
    Severity.SEVERE,
    find,
    sentence,
    lambda facts: list_of("generation"),
    Threshold(0.5, _("minutes"), 0.5, 1440),
    urgency=10,
    by_leader=False,
    by_web=True,
)
