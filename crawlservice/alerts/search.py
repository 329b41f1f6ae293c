"""Search: looks for all conditions."""

from __future__ import annotations

import logging
from itertools import islice

from redis import RedisError

from crawlframe.errors import CrawlframeError
from crawlservice.alerts.condition import MAX_SUBJECTS, Alarm, ServiceView, Unknown
from crawlservice.alerts.kinds import conditions
from crawlservice.connections.contained import contained

log = logging.getLogger(__name__)

Found = dict[str, list[Alarm | Unknown]]


def find(view: ServiceView, *, by_web: bool = False) -> Found:
    """What is there now, by condition, of those that the leader finds, or the web;
    MAX_SUBJECTS of each, and Unknown if there are more. A condition that fails, as without Redis,
    is missing: it is unknown whether it is there. What only the web finds is not there, because a
    leader asks. Raises django.db.Error."""
    found: Found = {}
    for name, condition in conditions().items():
        if not (condition.by_web if by_web else condition.by_leader):
            if not by_web:
                found[name] = []
            continue
        try:
            with contained(f"the condition {name}"):
                some = [*islice(condition.find(view), MAX_SUBJECTS + 1)]
                more = len(some) > MAX_SUBJECTS
                found[name] = [*some[:MAX_SUBJECTS], Unknown()] if more else some
        except (RedisError, CrawlframeError) as error:
            log.warning("whether there is %s is unknown: %s", name, error)
    return found
