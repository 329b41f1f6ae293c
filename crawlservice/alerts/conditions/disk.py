"""The disk with the var directory of a node is nearly full."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from crawlservice.alerts.condition import Alarm, Condition, Facts, ServiceView, Threshold
from crawlservice.alerts.wording import page_of
from crawlservice.models import Severity


def find(view: ServiceView) -> Iterator[Alarm]:
    """Raises redis.RedisError."""
    for info in view.living:
        if info.health.disk >= view.floor("disk"):
            facts = {"node": info.node, "generation": info.generation, "percent": info.health.disk}
            yield Alarm("disk", info.node, view.now, facts, float(info.health.disk))


def sentence(facts: Facts) -> str:
    text = gettext(
        # xgettext:no-python-format
        "The disk with the var directory of node {node} is {percent} % full; once it is full, "
        "nothing is fetched."
    )
    return text.format(node=facts["node"], percent=facts["percent"])


CONDITION = Condition(
    "disk",
    _("disk nearly full"),
    Severity.SEVERE,
    find,
    sentence,
    lambda facts: page_of("generation", facts["generation"]),
    Threshold(90, _("percent"), 1, 100),
    urgency=110,
)
