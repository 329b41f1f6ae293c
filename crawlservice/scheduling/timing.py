"""Timing: when a schedule is due, by cron in its time zone, or at a fixed interval."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

from cron_descriptor import ExpressionDescriptor, Options
from cron_descriptor.Exception import FormatException
from cronsim import CronSim, CronSimError
from django.utils.dates import MONTHS, WEEKDAYS
from django.utils.translation import get_language, ngettext, override
from django.utils.translation import gettext as _

from crawlframe.errors import FieldError

LOCALES = {"zh": "zh_CN"}  # of cron_descriptor, by the beginning of Django's; else English
FIELDS = 5  # of a cron expression
LEAST_EVERY = 10  # seconds that people may give
FIRST_LOOK = timedelta(minutes=1)  # how far back the last due time is searched at first


class BadTiming(FieldError):
    """A schedule with this timing could never be due. ``field``: the wrong field."""


def too_often() -> BadTiming:
    text = _("give at least %(least)d seconds")
    return BadTiming("every", text % {"least": LEAST_EVERY})


@dataclass(frozen=True)
class Timing:
    """``cron`` or ``every``, one of them. All times are given and returned in UTC.

    Daylight saving works as in Debian's cron. A time of day (neither minute nor hour starts with
    ``*``) that the clock skips is due right after the gap, and a time that the clock shows twice is
    due the first time. Others follow the wall clock: not due in the gap, and due twice in the
    repeated hour. ``every`` does not depend on the wall clock."""

    cron: str
    every: int | None
    zone: ZoneInfo

    @classmethod
    def of(cls, cron: str, every: int | None, timezone: str) -> Timing:
        """Raises BadTiming."""
        try:
            zone = ZoneInfo(timezone)
        except (KeyError, ValueError, OSError):  # unknown, no name of one, and a directory
            text = _("there is no time zone %(name)r; give one such as Asia/Shanghai or UTC")
            raise BadTiming("timezone", text % {"name": timezone}) from None
        timing = cls(" ".join(cron.split()), every, zone)
        timing._check()
        return timing

    def after(self, moment: datetime) -> datetime | None:
        """The first time due after ``moment``; None when there is none for 50 years."""
        return next(self.all_after(moment), None)

    def all_after(self, moment: datetime) -> Iterator[datetime]:
        if self.every is not None:
            while True:
                moment += timedelta(seconds=self.every)
                yield moment
        for local in CronSim(self.cron, moment.astimezone(self.zone)):
            # In a repeated hour, the first time is returned, which may be before a moment in the
            # second.
            due = local.astimezone(UTC)
            if due > moment:
                moment = due
                yield due

    def latest(self, first: datetime, until: datetime) -> datetime:
        """The last due time up to ``until``; ``first`` is a due time that is not after it."""
        if self.every is not None:
            return first + (until - first) // timedelta(seconds=self.every) * timedelta(
                seconds=self.every
            )
        span = FIRST_LOOK
        while True:
            last = first
            start = max(first, until - span)
            for due in self.all_after(start):
                if due > until:
                    break
                last = due
            if last > first or start == first:
                return last
            span *= 4

    def upcoming(self, first: datetime, count: int) -> list[datetime]:
        """``first``, which is a due time, and those after it."""
        return [first, *islice(self.all_after(first), count - 1)]

    def _check(self) -> None:
        if self.every is not None:
            if self.cron:
                raise BadTiming("every", _("give a cron expression or seconds, not both"))
            if self.every < 1:
                raise too_often()
            return
        if not self.cron:
            raise BadTiming("cron", _("give a cron expression, or seconds between two starts"))
        count = len(self.cron.split())
        if count != FIELDS:
            text = _(
                "%(cron)r has %(count)d fields; give five: minute, hour, day of month, month, day "
                "of week, such as 0 6 * * 1-5"
            )
            raise BadTiming("cron", text % {"cron": self.cron, "count": count})
        try:
            due = self.after(datetime.now(UTC))
        except CronSimError as error:
            part = str(error).removeprefix("Bad ").replace("-", " ")
            text = _("the %(part)s of %(cron)r is wrong")
            raise BadTiming("cron", text % {"part": part, "cron": self.cron}) from None
        if due is None:
            raise BadTiming("cron", _("there is no such day"))


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
