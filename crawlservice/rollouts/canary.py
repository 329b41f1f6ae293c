"""Canary: whether a version runs pages without errors of a new kind, and makes the same items of
them as before, according to the ledger."""

from __future__ import annotations

from typing import NamedTuple

from crawlframe.run.reasons import NO_ERRORS
from crawlservice.ledger.commit_order import CommitOrder
from crawlservice.models import Page
from crawlservice.quality.reader import Bounds
from crawlservice.quality.version_trial import VersionTrial

LOOK_BACK = 200_000  # ledger rows searched for the same error of other versions
# Rows that commits may overtake each other by: a row may appear before an earlier one.
OVERTAKING_ROWS = 5_000
EXAMPLES = 1_000  # rows of one reason whose tracebacks are compared


class Kind(NamedTuple):
    """The common features of alike errors. ``exception``: the type raised by a callback, else
    ""."""

    spider: str
    callback: str
    reason: str
    exception: str

    def __str__(self) -> str:
        what = f"{self.reason} ({self.exception})" if self.exception else self.reason
        return f"{what} in {self.spider}.{self.callback}"


class NewError(NamedTuple):
    """An error of a kind that no other version had."""

    kind: Kind
    url: str
    detail: str


class CanaryTrial:
    """The pages that one version runs from now on. Reads only new rows of the ledger, by primary
    key. Raises django.db.Error."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._start = self._read = _newest()
        self._seen: set[int] = set()
        self._known: set[Kind] = set()
        items, pages = CommitOrder(), CommitOrder(Page)
        self._quality = VersionTrial(version, lambda: Bounds(items.settled(), pages.settled()))

    @property
    def pages(self) -> int:
        """The number of pages that the version ran, as of the last ``check``."""
        return len(self._seen)

    def check_quality(self) -> str:
        """Judges its items and pages. Returns the first deviation from before, or from the
        expectations of the author, in a sentence; "" if there is none."""
        return self._quality.check()

    def check(self) -> NewError | None:
        """Reads new rows. Returns the first error of a kind that is new with this version, or
        None."""
        newest = _newest()
        rows = (
            Page.objects.filter(
                pk__gt=max(self._start, self._read - OVERTAKING_ROWS), pk__lte=newest
            )
            .filter(version=self._version)
            .order_by("pk")
            .values_list("pk", "state", "task__spider", "callback", "reason", "url", "detail")
        )
        for pk, state, spider, callback, reason, url, detail in rows.iterator():
            if pk in self._seen:
                continue
            self._seen.add(pk)
            if state != Page.State.ERROR or reason in NO_ERRORS:
                continue
            exception = (
                exception_of(detail) if reason in ("callback", "middleware", "pipeline") else ""
            )
            kind = Kind(spider, callback, reason, exception)
            if kind not in self._known and not self._met_before(kind, newest):
                return NewError(kind, url, detail)
            self._known.add(kind)
        self._read = newest
        return None

    def _met_before(self, kind: Kind, newest: int) -> bool:
        """Whether another version had it, before or meanwhile."""
        rows = Page.objects.filter(
            pk__gt=newest - LOOK_BACK,
            state=Page.State.ERROR,
            task__spider=kind.spider,
            callback=kind.callback,
            reason=kind.reason,
        ).exclude(version=self._version)
        if not kind.exception:
            return rows.order_by().exists()
        alike = rows.filter(detail__contains=kind.exception).order_by("-pk")
        details = alike.values_list("detail", flat=True)[:EXAMPLES]
        return any(exception_of(detail) == kind.exception for detail in details)


def exception_of(detail: str) -> str:
    """The type of the exception that a traceback ends with, such as ``ValueError``. Its message may
    have several lines, so it is looked for right after the last frame."""
    lines = detail.splitlines()
    frames = [number for number, line in enumerate(lines) if line.startswith('  File "')]
    after = lines[frames[-1] + 1 :] if frames else lines
    last = next((line for line in after if not line.startswith("    ")), "")
    return last.partition(":")[0].strip()


def _newest() -> int:
    newest = Page.objects.order_by("-pk").values_list("pk", flat=True).first()
    return newest or 0
