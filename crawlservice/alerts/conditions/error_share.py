"""Many of the pages of a running task are errors."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from crawlservice.alerts.condition import Alarm, Condition, Facts, ServiceView, Threshold, Unknown
from crawlservice.alerts.task_alarms import name_of, running_finding, uncounted
from crawlservice.alerts.wording import list_of
from crawlservice.models import Severity

MIN_PAGES = 20  # from which on the share of errors says something


def find(view: ServiceView) -> Iterator[Alarm | Unknown]:
    for task in view.tasks:
        counts = task.counts
        if counts is None:
            continue
        pages = counts.nf + counts.errors
        share = 100 * counts.errors / max(pages, 1)
        if pages >= MIN_PAGES and share >= view.floor("error_share"):
            facts = {"percent": round(share), "pages": pages}
            yield running_finding("error_share", task, view.now, float(round(share)), **facts)
    yield from uncounted(view)


def sentence(facts: Facts) -> str:
    # xgettext:no-python-format
    text = gettext("{task}: {percent} % of {pages} pages so far are errors.")
    return text.format(task=name_of(facts), percent=facts["percent"], pages=facts["pages"])


CONDITION = Condition(
    "error_share",
    _("errors in a running task"),
    Severity.WARNING,
    find,
    sentence,
    lambda facts: list_of("page", state__exact="error", task=facts["task"]),
    Threshold(20, _("percent"), 0.1, 100),
    urgency=20,
)
