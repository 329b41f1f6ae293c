"""Reasons of tasks and events: stored in English, shown in the language of the reader."""

from __future__ import annotations

import re
from functools import cache

from django.utils.translation import get_language, gettext
from django.utils.translation import gettext_noop as _

from crawlservice.quality.outcome import QUALITY
from crawlservice.quality.wording import localized
from crawlservice.tasks.progress.outcomes import PHRASES

# Each {} is a value. A longer sentence stands before those that it contains.
SENTENCES = (
    _("{} of {} pages ended in error, mostly {}"),
    _("{} of {} pages ended in error, all {}"),
    _("{} of {} pages ended in error"),
    _("{} pages were excluded, mostly {}"),
    _("{} pages were excluded, all {}"),
    _("{} page was excluded, all {}"),
    _("every page was excluded, mostly {}"),
    _("every page was excluded, all {}"),
    _("start failed: {}"),
    _("closed failed: {}"),
    _("nothing was fetched"),
    _("start led to no request; check that its URLs are in allowed_domains"),
    _("nothing beyond the start pages was fetched, and there are no items"),
    _("0 items; task {} had {}"),
    _("no kept page has the callback {}"),
    _("no page was kept"),
    _("byte_limit: {} of {} bytes were fetched"),
    _("time_limit: {} seconds are over"),
    _("more than half of its last pages were blocks"),
    _("Redis was taken over from installation {}"),
    _("the first"),
)


def in_language(reason: str) -> str:
    """The reason in the language of the reader; what is not known stays as it is."""
    if (get_language() or "en").startswith("en"):
        return reason
    if reason.startswith(QUALITY):
        return gettext("quality") + f": {localized(reason.removeprefix(QUALITY))}"
    for sentence in SENTENCES:
        if found := _pattern(sentence).search(reason):
            words = gettext(sentence).format(*(PHRASES.get(one, one) for one in found.groups()))
            reason = f"{reason[: found.start()]}{words}{reason[found.end() :]}"
    return reason


@cache
def _pattern(sentence: str) -> re.Pattern[str]:
    return re.compile(r"(?<!\w)" + re.escape(sentence).replace(r"\{\}", r"([^\s;()]+)") + r"(?!\w)")
