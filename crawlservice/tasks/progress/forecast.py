"""Forecast: how many requests a task will have had when it ends, where that is known. While links
are still being found, the number of known requests does not show it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from operator import or_

from django.db.models import F, Min, Q
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from crawlservice.models import Sample, Task
from crawlservice.tasks.progress.progress import Progress

QUIET_REQUESTS = 100  # requests that must end without a new one before their number counts as final
QUIET_SHARE = 0.25  # the same, as a share of all that ended
GROUP = 100  # tasks in one query: SQLite takes an OR of less than 1000 terms
DONE = F("nf") + F("ne")
ADMITTED = DONE + F("ready") + F("in_progress") + F("delayed") + F("parked")


class Basis(StrEnum):
    """The numbers behind a forecast."""

    UNKNOWN = ""
    ADMITTED = "admitted"  # no further requests are expected
    LAST_RUN = "last_run"  # the last run with the same arguments had as many


@dataclass(frozen=True)
class Forecast:
    """``total``: requests in total; None: unknown."""

    progress: Progress
    total: int | None = None
    basis: Basis = Basis.UNKNOWN

    @property
    def percent(self) -> int | None:
        """Percentage of the requests that have ended; 100 only when all have."""
        return (
            None if self.total is None else 100 * self.progress.ended_requests // max(1, self.total)
        )

    @property
    def share(self) -> str:
        """``83 %``, ``about 26 %`` or ""."""
        if self.percent is None:
            return ""
        return (_("about {n} %") if self.is_estimate else _("{n} %")).format(n=self.percent)

    @property
    def left(self) -> int | None:
        """Requests that have not ended yet."""
        return None if self.total is None else self.total - self.progress.ended_requests

    @property
    def is_estimate(self) -> bool:
        return self.basis == Basis.LAST_RUN

    def seconds(self, rate: float) -> float | None:
        """Seconds until the end at ``rate`` requests per second; None: unknown, or nothing runs."""
        runs = self.progress.task.state == Task.State.RUNNING
        return self.left / rate if self.left is not None and runs and rate > 0 else None

    @property
    def words(self) -> str:
        """``16 done, 1 known to remain``."""
        now = self.progress
        if not now.live and not now.ended:
            return _("unknown: its numbers are in Redis")
        done = _("{n} done").format(n=f"{now.nf:,}")
        if now.errors:
            errors = ngettext("{n} error", "{n} errors", now.errors).format(n=f"{now.errors:,}")
            done = _("{done}, {errors}").format(done=done, errors=errors)
        if now.ended:
            return done
        if self.is_estimate:
            total = f"{self.total:,}"
            return _("{done} of about {n} as last time").format(done=done, n=total)
        if self.basis == Basis.ADMITTED:
            return _("{done}, {n} left").format(done=done, n=f"{now.nr:,}")
        return _("{done}, {n} known to remain").format(done=done, n=f"{now.nr:,}")


def forecast(progress: Progress) -> Forecast:
    """The forecast of one task. Raises django.db.Error."""
    return next(iter(forecasts([progress])))


def forecasts(found: Iterable[Progress]) -> list[Forecast]:
    """The forecast of each task, with one query per GROUP of tasks that need samples. Raises
    django.db.Error."""
    found = [*found]
    grown = dict(_grown([one for one in found if _may_grow(one)]))
    return [_forecast(one, grown.get(one.task.pk)) for one in found]


def _forecast(now: Progress, grown: int | None) -> Forecast:
    """``grown``: upper bound of the requests that had ended at the latest admission; None: no
    sample shows it."""
    quiet = -1 if grown is None else now.ended_requests - grown
    if now.ended or _is_full(now) or quiet >= max(QUIET_REQUESTS, QUIET_SHARE * now.ended_requests):
        return Forecast(now, now.na, Basis.ADMITTED)
    previous = now.task.previous_na
    if now.live and previous and now.na <= previous:
        return Forecast(now, previous, Basis.LAST_RUN)
    return Forecast(now)


def _is_full(now: Progress) -> bool:
    """Whether its page limit is reached; the runs of its start and closed do not count as pages."""
    return now.live and 0 < now.task.settings.get("page_limit", 0) < now.na - now.task.ends


def _may_grow(now: Progress) -> bool:
    return now.live and now.ended_requests >= QUIET_REQUESTS and not _is_full(now)


def _grown(found: Sequence[Progress]) -> Iterator[tuple[int, int]]:
    """For each task, the number of ended requests at the first sample that shows as many admitted
    requests as now."""
    for start in range(0, len(found), GROUP):
        group = found[start : start + GROUP]
        same = reduce(or_, (Q(task=one.task.pk, admitted=one.na) for one in group))
        rows = Sample.objects.alias(admitted=ADMITTED).filter(same).order_by()
        yield from rows.values_list("task").annotate(done=Min(DONE))
