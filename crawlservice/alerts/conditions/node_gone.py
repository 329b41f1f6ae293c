"""A node died, and has neither come back nor been forgotten."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from crawlservice.alerts.condition import MAX_SUBJECTS, Alarm, Condition, Facts, ServiceView
from crawlservice.alerts.wording import page_of
from crawlservice.models import Generation, Severity
from crawlservice.monitoring import lives


def find(view: ServiceView) -> Iterator[Alarm]:
    for life in lives.offline()[: MAX_SUBJECTS + 1]:
        facts = {"node": life.node, "generation": life.pk, "requests": life.given_back}
        yield Alarm("node_gone", life.node, life.ended_at or view.now, facts)


def sentence(facts: Facts) -> str:
    text = ngettext(
        "Node {node} died or is cut off; {n} request was given back.",
        "Node {node} died or is cut off; {n} requests were given back.",
        facts["requests"],
    )
    return text.format(node=facts["node"], n=facts["requests"])


CONDITION = Condition(
    "node_gone",
    _("node offline"),
    Severity.SEVERE,
    find,
    sentence,
    lambda facts: page_of("generation", facts["generation"]),
    urgency=30,
    rows=lambda: [Generation.objects.filter(offline=True)],
)
