"""Conditions of hosts in plain words, in the reader's language."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.timezone import localtime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from crawlframe.frontier.waits import TaskWait
from crawlframe.proxies.place import host_in
from crawlservice.hosts.rules import HostCondition, rule_of
from crawlservice.hosts.states import HostNow, moment

LABELS: dict[str, tuple[str | Promise, str]] = {
    HostCondition.UNKNOWN: (gettext_lazy("unknown"), "muted"),
    HostCondition.PAUSED: (gettext_lazy("paused"), "warn"),
    HostCondition.HELD: (gettext_lazy("held"), "bad"),
    HostCondition.RESTING: (gettext_lazy("resting"), "warn"),
    HostCondition.ROBOTS: (gettext_lazy("robots.txt"), "warn"),
    HostCondition.WAITING: (gettext_lazy("waiting"), "primary"),
    HostCondition.CRAWLING: (gettext_lazy("crawling"), "good"),
    HostCondition.IDLE: (gettext_lazy("idle"), "muted"),
}


def why(now: HostNow) -> str:
    """Why it is in its condition and until when, in a sentence without a stop; "" if the word says
    it all."""
    state, left = now.state, now.state.next_at - now.now
    if not now.live:
        return _("Redis does not answer")
    if now.closed > 0 or state.why == "blocked":
        reason = str(rule_of(state.why).reason)
        if state.why == "blocked" and state.pages:
            text = _("{n} of its last {all} pages were blocks")
            reason = text.format(n=state.blocks, all=state.pages)
        return _sentence(reason, now.until, now.now)
    if now.condition is not HostCondition.WAITING:
        return ""
    if left > 0:
        return _("for its delay, {seconds} s more").format(seconds=f"{left:.1f}")
    return _("for a free worker")


def wait_of(wait: TaskWait) -> str:
    """Why nothing of a task is fetched, and until when, in a sentence without a stop."""
    rule = rule_of(wait.why)
    reason = str(rule.reason or LABELS[rule.condition][0])
    sentence = _sentence(reason, moment(wait.until), time.time())
    return f"{host_in(wait.host)}: {sentence}"


def _sentence(reason: str, until: datetime | None, now: float) -> str:
    end = _("until an operator resumes it")
    if until is not None:
        end = _("until {time}").format(time=clock_time(until, now))
    return _("{reason}, {end}").format(reason=reason, end=end) if reason else end


def pace(now: HostNow) -> str:
    """The reason of the present rate limit, in a sentence; "" if no task has requests."""
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


def clock_time(at: datetime, now: float) -> str:
    """A time with its zone, of today without its date. ``now``: seconds since the epoch."""
    today = localtime(at).date() == localtime(datetime.fromtimestamp(now, UTC)).date()
    return date_format(localtime(at), "H:i:s T" if today else "Y-m-d H:i:s T")


def speed(per_second: float | None) -> str:
    """``2.5/s``, or per minute or hour where that reads better."""
    if not per_second:
        return "-"
    for unit, seconds in (("s", 1), ("min", 60), ("h", 3600)):
        if per_second * seconds >= 0.5 or unit == "h":
            return f"{per_second * seconds:.3g}/{unit}"
    return "-"
