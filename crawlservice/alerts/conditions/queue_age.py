"""The requests of some host have been due for long: the nodes cannot keep up."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from crawlservice.alerts.condition import Alarm, Condition, Facts, ServiceView, Threshold
from crawlservice.alerts.wording import list_of
from crawlservice.models import Severity


def find(view: ServiceView) -> Iterator[Alarm]:
    """Finds the host whose requests have been due for the longest time. Raises
    redis.RedisError."""
    oldest = view.frontier.hosts.longest_due()
    if oldest is None:
        return
    host, seconds = oldest
    if seconds >= 60 * view.floor("queue_age"):
        since = view.now - timedelta(seconds=seconds)
        yield Alarm("queue_age", "", since, {"host": host}, round(seconds / 60, 1), host=host)


def sentence(facts: Facts) -> str:
    text = gettext("Requests of {host} have been due for long: the nodes cannot keep up.")
    return text.format(host=facts["host"])


CONDITION = Condition(
    "queue_age",
    _("requests wait long"),
    Severity.WARNING,
    find,
    sentence,
    lambda facts: list_of("host", q=facts["host"]),
    Threshold(60, _("minutes"), 1, 10_080),
    urgency=60,
)
