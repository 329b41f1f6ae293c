"""Conditions of hosts in plain words, in the reader's language."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.timezone import localtime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from crawlservice.hosts.states import Condition, HostNow

LABELS: dict[str, tuple[str | Promise, str]] = {
    Condition.UNKNOWN: (gettext_lazy("unknown"), "muted"),
    Condition.PAUSED: (gettext_lazy("paused"), "warn"),
    Condition.HELD: (gettext_lazy("held"), "bad"),
    Condition.RESTING: (gettext_lazy("resting"), "warn"),
    Condition.ROBOTS: (gettext_lazy("robots.txt"), "warn"),
    Condition.WAITING: (gettext_lazy("waiting"), "primary"),
    Condition.CRAWLING: (gettext_lazy("crawling"), "good"),
    Condition.IDLE: (gettext_lazy("idle"), "muted"),
}


def why(now: HostNow) -> str:
    """Why it is in its condition and until when, in a sentence without a stop; "" if the word says
    it all."""
    until = _until(now)
    match now.condition:
        case Condition.UNKNOWN:
            return _("Redis does not answer")
        case Condition.PAUSED:
            return until or _("until an operator resumes it")
        case Condition.HELD | Condition.RESTING:
            end = until or _("until an operator resumes it")
            return _("{reason}, {end}").format(reason=_reason(now), end=end)
        case Condition.ROBOTS:
            return _("its robots.txt cannot be read; the next try is at {time}").format(
                time=clock_time(now.until, now.now) if now.until else "?"
            )
        case Condition.WAITING:
            left = now.next_at - now.now
            if left > 0:
                return _("for its delay, {seconds} s more").format(seconds=f"{left:.1f}")
            return _("for a free worker")
    return ""


def pace(now: HostNow) -> str:
    """What decides the rate that is allowed now, in a sentence; "" if no task has requests."""
    state, gap = now.state, now.gap
    if gap is None:
        return ""
    if 0 < gap <= state.robots_delay:
        text = _(
            "Its robots.txt decides: it asks for {gap} s between two requests, at least as much as "
            "the tasks. A task that does not obey it keeps its own delay."
        )
    elif state.order and state.order.delay is not None:
        text = _("An operator's order decides: {gap} s, in place of the delay of each task.")
    elif state.gap is not None:
        text = _(
            "The adaptive rate decides: {gap} s between two requests, found from how the host "
            "answers. A task with a delay of its own keeps that."
        )
    elif not gap:
        text = _("No task with requests for it has a delay.")
    else:
        text = _("The tasks decide: {gap} s is the longest delay of those with requests for it.")
    return text.format(gap=f"{gap:.3g}")


def _reason(now: HostNow) -> str:
    state = now.state
    match state.why:
        case "blocked":
            if state.pages:
                text = _("{n} of its last {all} pages were blocks")
                return text.format(n=state.blocks, all=state.pages)
            return _("it blocks")
        case "asked":
            return _("it asked for a long wait")
        case "refused":
            return _("after a refusal (429 or 503)")
        case "quota":
            return _("its rate headers allow few more requests for now")
        case "unreachable":
            return _("after time-outs or refused connections")
    return state.why


def _until(now: HostNow) -> str:
    """``until 12:03:11``; with the date if that is far; "" if it does not end by itself."""
    if now.until is None or math.isinf(now.rest):
        return ""
    return _("until {time}").format(time=clock_time(now.until, now.now))


def clock_time(at: datetime, now: float) -> str:
    """A time of today without its date. ``now``: seconds since the epoch."""
    today = localtime(at).date() == localtime(datetime.fromtimestamp(now, UTC)).date()
    return date_format(localtime(at), "H:i:s" if today else "Y-m-d H:i:s")


def speed(per_second: float | None) -> str:
    """``2.5/s``, or per minute or hour where that reads better."""
    if not per_second:
        return "-"
    for unit, seconds in (("s", 1), ("min", 60), ("h", 3600)):
        if per_second * seconds >= 0.5 or unit == "h":
            return f"{per_second * seconds:.3g}/{unit}"
    return "-"
