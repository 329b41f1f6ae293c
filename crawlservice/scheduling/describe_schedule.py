"""Timing in the words of the reader's language: "At 06:00, Monday through Friday"."""

from __future__ import annotations

from cron_descriptor import ExpressionDescriptor, Options
from cron_descriptor.Exception import FormatException
from django.utils.dates import MONTHS, WEEKDAYS
from django.utils.translation import get_language, ngettext, override

LOCALES = {"zh": "zh_CN"}  # of cron_descriptor, by the beginning of Django's; else English


def in_words(cron: str, every: int | None) -> str:
    """The timing in words; it must be valid."""
    return _cron(cron) if every is None else _every(every)


def _every(seconds: int) -> str:
    if seconds % 86400 == 0:
        days = seconds // 86400
        return ngettext("every day", "every %(n)d days", days) % {"n": days}
    if seconds % 3600 == 0:
        hours = seconds // 3600
        return ngettext("every hour", "every %(n)d hours", hours) % {"n": hours}
    if seconds % 60 == 0:
        minutes = seconds // 60
        return ngettext("every minute", "every %(n)d minutes", minutes) % {"n": minutes}
    return ngettext("every second", "every %(n)d seconds", seconds) % {"n": seconds}


def _cron(cron: str) -> str:
    # Given here: otherwise Options looks for the system's, and warns where there is none.
    options = Options(locale_code=LOCALES.get((get_language() or "")[:2], "en_US"))
    options.use_24hour_time_format = True
    try:
        words: str = ExpressionDescriptor(cron, options).get_description()
    except FormatException:  # cron_descriptor knows fewer forms than we do
        return cron
    return _named(words)


def _named(words: str) -> str:
    """Translates the names of days and months, which cron_descriptor leaves in English."""
    for names in (WEEKDAYS, MONTHS):
        for number, name in names.items():
            with override("en"):
                english = str(name)
            words = words.replace(english, str(names[number]))
    return words
