"""Disabling of spiders: no task of a disabled spider starts. Running tasks continue."""

from __future__ import annotations

from typing import Any

from crawlframe.errors import ArgumentError, CrawlframeError
from crawlframe.items.encode import clean_text
from crawlservice.accounts.journal import record
from crawlservice.models import MAX_REASON, SPIDER, DisabledSpider


class SpiderDisabled(CrawlframeError):
    """The spider is disabled."""

    def __init__(self, row: DisabledSpider) -> None:
        super().__init__(
            f"spider {row.spider!r} is disabled: {row.reason}. Nothing was started; enable it first"
        )
        self.reason = row.reason


def disable(spider: str, reason: str, who: dict[str, Any]) -> DisabledSpider:
    """Disables a spider, or changes the reason. ``who``: as for ``journal.record``. Raises
    ArgumentError for a reason that is empty or too long."""
    reason = " ".join(clean_text(reason).split())
    if not reason:
        raise ArgumentError("give the reason for which the spider is disabled; it is shown to all")
    if len(reason) > MAX_REASON:
        raise ArgumentError(f"the reason has {len(reason)} characters; {MAX_REASON} are allowed")
    if not 0 < len(spider) <= SPIDER:
        raise ArgumentError(f"the name of a spider has 1 to {SPIDER} characters")
    user = who.get("user")
    known = user if user is not None and user.is_authenticated else None
    row, _ = DisabledSpider.objects.update_or_create(
        spider=spider, defaults={"reason": reason, "user": known}
    )
    record("disable spider", **who, spider=spider, reason=reason)
    return row


def enable(spider: str, who: dict[str, Any]) -> bool:
    """Enables it again. Returns False if it was not disabled."""
    gone, _ = DisabledSpider.objects.filter(spider=spider).delete()
    if gone:
        record("enable spider", **who, spider=spider)
    return bool(gone)


def disabled() -> dict[str, DisabledSpider]:
    """All disabled spiders, by name."""
    rows = DisabledSpider.objects.select_related("user").order_by("spider")
    return {row.spider: row for row in rows}


def find(spider: str) -> DisabledSpider | None:
    """The row of a disabled spider, with user, time and reason; None if it is enabled."""
    return DisabledSpider.objects.select_related("user").filter(spider=spider).first()


def check(spider: str) -> None:
    """Raises SpiderDisabled."""
    if (row := find(spider)) is not None:
        raise SpiderDisabled(row)
