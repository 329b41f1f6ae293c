"""A host blocks, or has asked for a long wait."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from crawlservice.alerts.condition import MAX_SUBJECTS, Alarm, Condition, Facts, ServiceView
from crawlservice.alerts.wording import page_of
from crawlservice.models import HELD, Host, Severity


def find(view: ServiceView) -> Iterator[Alarm]:
    for host in Host.objects.filter(HELD).order_by("pk")[: MAX_SUBJECTS + 1]:
        until = host.held_until and host.held_until.isoformat()
        facts = {"host": host.name, "number": host.pk, "why": host.held_why, "until": until}
        since = host.held_since or view.now
        yield Alarm("host_held", host.name, since, facts, host=host.name)


def sentence(facts: Facts) -> str:
    if facts["why"] == "blocked":
        return gettext("{host} blocks: nothing of it is fetched.").format(host=facts["host"])
    if facts["why"] == "asked":
        return gettext("{host} has asked for a long wait.").format(host=facts["host"])
    return gettext("{host} is held: {why}").format(host=facts["host"], why=facts["why"])


CONDITION = Condition(
    "host_held",
    _("host held"),
    Severity.WARNING,
    find,
    sentence,
    lambda facts: page_of("host", facts["number"]),
    urgency=40,
    rows=lambda: [Host.objects.filter(HELD)],
)
