"""Wording: findings, and the reasons of tasks and events, in plain words. Reasons are stored in
English, and shown in the language of the reader."""

from __future__ import annotations

import re
from functools import cache
from math import ceil, floor
from typing import Any, NamedTuple

from django.utils.translation import get_language, gettext_noop, ngettext, override
from django.utils.translation import gettext as _

from crawlservice.models import Finding
from crawlservice.tasks.progress.phrases import PHRASES

QUALITY = "quality: "  # prefix of the reason of a task whose outcome comes from its findings
WHOLE = ("items", "pages")  # monitors whose numbers are whole


# Each {} is a value. A longer sentence stands before those that it contains.
SENTENCES = (
    gettext_noop("{} of {} pages ended in error, mostly {}"),
    gettext_noop("{} of {} pages ended in error, all {}"),
    gettext_noop("{} of {} pages ended in error"),
    gettext_noop("{} pages were excluded, mostly {}"),
    gettext_noop("{} pages were excluded, all {}"),
    gettext_noop("{} page was excluded, all {}"),
    gettext_noop("every page was excluded, mostly {}"),
    gettext_noop("every page was excluded, all {}"),
    gettext_noop("start failed: {}"),
    gettext_noop("closed failed: {}"),
    gettext_noop("nothing was fetched"),
    gettext_noop("start led to no request; check that its URLs are in allowed_domains"),
    gettext_noop("nothing beyond the start pages was fetched, and there are no items"),
    gettext_noop("0 items; task {} had {}"),
    gettext_noop("no kept page has the callback {}"),
    gettext_noop("no page was kept"),
    gettext_noop("byte_limit: {} of {} bytes were fetched"),
    gettext_noop("time_limit: {} seconds are over"),
    gettext_noop("more than half of its last pages were blocks"),
    gettext_noop("Redis was taken over from installation {}"),
    gettext_noop("the first"),
)


class Words(NamedTuple):
    """``what``: a sentence; ``seen`` and ``expected`` are numbers with their units."""

    what: str
    seen: str
    expected: str


def words_of(finding: Finding) -> Words:
    """A finding in the language of the reader; its sentence ends with a full stop."""
    seen = _number(finding.seen, finding.unit)
    known = _sentences(1 if seen == "1" else 2)  # fractions are plural
    what = known.get(finding.monitor, "%(field)s %(subject)s: %(seen)s")
    return Words(what % _names(finding, seen), seen, _expected(finding))


def sentence_of(finding: Finding) -> str:
    """A sentence such as ``price has a value in 3 % of the items; expected: at least 98 %``"""
    words = words_of(finding)
    expected = _("expected") + f": {words.expected}" if words.expected else ""
    return "; ".join(filter(None, (words.what.rstrip(".。"), expected)))


def localized(text: str) -> str:
    """An English text of ``sentence_of`` in the language of the reader."""
    what, *expected = text.split("; expected: ")
    for n in (1, 2):
        with override("en"):
            english = _sentences(n)
        for monitor, sentence in english.items():
            words = re.escape(sentence.rstrip(".").replace("%%", "%"))
            if found := re.fullmatch(re.sub(r"%\\\((\w+)\\\)s", r"(?P<\1>.+)", words), what):
                what = (_sentences(n)[monitor] % found.groupdict()).rstrip(".。")
                return "; ".join([what, *(f"{_('expected')}: {_bounds(one)}" for one in expected)])
    return text


def _bounds(text: str) -> str:
    text = text.replace("each value once", _("each value once"))
    text = re.sub(
        r"(at least |at most |usually )([^,]+)", lambda m: _(m.expand(r"\1%s")) % m[2], text
    )
    ends = r"(?P<low>[^,]+) to (?P<high>[^,]+)"
    return re.sub(ends, lambda m: _("%(low)s to %(high)s") % m.groupdict(), text)


def _names(finding: Finding, seen: str) -> dict[str, Any]:
    return {"field": finding.field, "subject": finding.subject, "seen": seen}


def _sentences(n: int) -> dict[str, str]:
    """By monitor; ``n``: the number that decides whether a noun is plural."""
    return {
        "items": ngettext("The run has %(seen)s item.", "The run has %(seen)s items.", n),
        "pages": ngettext("The run has %(seen)s page.", "The run has %(seen)s pages.", n),
        "duration": _("The run took %(seen)s."),
        "errors": _("%(seen)s of the pages ended in error."),
        "status": _("%(seen)s of the pages have the HTTP status %(subject)s."),
        "section": _("%(seen)s of the pages are of %(subject)s."),
        "yield": ngettext(
            "A page has %(seen)s item on average.", "A page has %(seen)s items on average.", n
        ),
        "filled": _("%(field)s has a value in %(seen)s of the items."),
        "kind": _("%(field)s is of the type %(subject)s in %(seen)s of its values."),
        "zero": _("%(field)s is 0 in %(seen)s of its values."),
        "broken": _("%(field)s has letters of a wrong encoding in %(seen)s of its texts."),
        "top": _("%(field)s has the same value in %(seen)s of the items."),
        "distinct": _("%(field)s has %(seen)s different values for each 100 %% of its values."),
        "choice": _("%(field)s is “%(subject)s” in %(seen)s of its values."),
        "unique": _("%(field)s occurs more than once: %(seen)s of its values are different."),
        "value": _("The median of %(field)s is %(seen)s."),
        "length": _("The median length of %(field)s is %(seen)s."),
        "letters": _("The letters of %(field)s are %(seen)s like the letters in good runs."),
        "words": _("The words of %(field)s have %(seen)s in common with the words in good runs."),
    }


def _expected(finding: Finding) -> str:
    low, high = finding.low, finding.high
    if finding.monitor in WHOLE:
        low = None if low is None else ceil(low)
        high = None if high is None else floor(high)
    parts = []
    if low is not None and finding.monitor == "unique":
        parts.append(_("each value once"))
    elif low is not None and high is not None:
        values = {"low": _number(low, finding.unit), "high": _number(high, finding.unit)}
        parts.append(_("%(low)s to %(high)s") % values)
    elif low is not None:
        parts.append(_("at least %s") % _number(low, finding.unit))
    elif high is not None:
        parts.append(_("at most %s") % _number(high, finding.unit))
    if finding.usual is not None:
        parts.append(_("usually %s") % _number(finding.usual, finding.unit))
    return ", ".join(parts)


def _number(value: float, unit: str) -> str:
    if unit == "share":
        return f"{100 * value:.3g} %"
    if unit == "seconds":
        return _("%s s") % f"{value:,.0f}"
    if unit == "chars":
        shown = f"{value:,.0f}"
        return ngettext("%s character", "%s characters", 1 if shown == "1" else 2) % shown
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def in_language(reason: str) -> str:
    """The reason in the language of the reader; what is not known stays as it is."""
    if (get_language() or "en").startswith("en"):
        return reason
    if reason.startswith(QUALITY):
        return _("quality") + f": {localized(reason.removeprefix(QUALITY))}"
    for sentence in SENTENCES:
        if found := _pattern(sentence).search(reason):
            words = _(sentence).format(*(PHRASES.get(one, one) for one in found.groups()))
            reason = f"{reason[: found.start()]}{words}{reason[found.end() :]}"
    return reason


@cache
def _pattern(sentence: str) -> re.Pattern[str]:
    return re.compile(r"(?<!\w)" + re.escape(sentence).replace(r"\{\}", r"([^\s;()]+)") + r"(?!\w)")
