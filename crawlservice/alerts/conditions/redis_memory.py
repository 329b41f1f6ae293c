"""Redis has used most of the memory that it may use."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from crawlservice.alerts.condition import Alarm, Condition, Facts, ServiceView, Threshold
from crawlservice.alerts.wording import list_of
from crawlservice.models import Severity


def find(view: ServiceView) -> Iterator[Alarm]:
    """Raises redis.RedisError."""
    memory = view.frontier.store.redis.info("memory")
    most, used = int(memory.get("maxmemory", 0)), int(memory.get("used_memory", 0))
    if most <= 0:  # no limit was set
        return
    percent = round(100 * used / most)
    if percent >= view.floor("redis_memory"):
        facts = {"percent": percent, "bytes": most}
        yield Alarm("redis_memory", "", view.now, facts, float(percent))


def sentence(facts: Facts) -> str:
    # xgettext:no-python-format
    text = gettext("Redis uses {percent} % of its {size} MiB; when it is full, crawling stops.")
    return text.format(percent=facts["percent"], size=round(facts["bytes"] / (1 << 20)))


CONDITION = Condition(
    "redis_memory",
    _("Redis memory nearly full"),
    Severity.SEVERE,
    find,
    sentence,
    lambda facts: list_of("generation"),
    Threshold(85, _("percent"), 1, 100),
    urgency=120,
)
