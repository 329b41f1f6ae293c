"""A node does not run the newest code: it was refused, does not load, or was not pulled."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from crawlservice.alerts.condition import Alarm, Condition, Facts, ServiceView, first_line
from crawlservice.alerts.wording import page_of
from crawlservice.models import Severity


def find(view: ServiceView) -> Iterator[Alarm]:
    """Raises redis.RedisError."""
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


def sentence(facts: Facts) -> str:
    if facts["pulled"]:
        text = gettext("{node} could not pull: {problem}")
    elif facts["candidate"]:
        text = gettext("{node} refused {candidate}: {problem}")
    else:
        text = gettext("Some code does not load on {node}: {problem}")
    return text.format(
        node=facts["node"], candidate=facts["candidate"], problem=facts["problem"] or "–"
    )


CONDITION = Condition(
    "code_refused",
    _("code refused"),
    Severity.SEVERE,
    find,
    sentence,
    lambda facts: page_of("generation", facts["generation"]),
    urgency=80,
)
