"""Old rounds of watches: those that ended long ago are removed with their pages and items. The
watch keeps what it knows."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db.models.functions import Now

from crawlservice.exports.retention import held
from crawlservice.models import Task
from crawlservice.tasks.removal import remove
from crawlservice.tasks.retry import ENDED

BATCH = 100  # rounds removed in one step


def prune_rounds() -> bool:
    """What the leading steward does: removes a batch of those that CRAWLFRAME_KEEP_ROUNDS no longer
    keeps. Returns whether there may be more. Raises django.db.Error, redis.RedisError and
    FrontierError."""
    if not settings.KEEP_ROUNDS:
        return False
    old = Now() - timedelta(days=settings.KEEP_ROUNDS)
    rounds = Task.objects.filter(watch__isnull=False, state__in=ENDED, finished_at__lt=old)
    found = [*rounds.filter(unwritten=None).order_by("pk").values_list("pk", flat=True)[:BATCH]]
    if not found:
        return False
    removed = sum(part.tasks for part in remove(Task.objects.filter(pk__in=found), held))
    return removed == BATCH
