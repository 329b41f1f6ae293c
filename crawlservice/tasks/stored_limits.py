"""Stored limits: settings that are kept with a task, in the forms of the frontier and of people."""

from __future__ import annotations

from typing import Any

from crawlframe import gates
from crawlframe.base.limits import LIMITS
from crawlframe.frontier import TaskLimits
from crawlframe.spider.settings import SpiderSettings
from crawlservice.models import Task

LAYERED = ("layers", "pause_layers")  # settings of tasks that fetch, one depth after the other


def stored_limits(settings: SpiderSettings) -> dict[str, Any]:
    """The part of a spider's settings that is stored with its task."""
    delay = settings.min_delay if settings.delay == "auto" else settings.delay
    kept: dict[str, Any] = {
        "delay": round(1000 * delay),
        "concurrency": settings.concurrency,
        "page_limit": settings.page_limit,
        "adaptive": settings.delay == "auto",
        "robots": settings.robots,
    }
    defaults = SpiderSettings()
    for name in (*LIMITS, *LAYERED, "traps", "fetch_only", "failed_share", *gates.names()):
        if (value := getattr(settings, name)) != getattr(defaults, name):
            kept[name] = value
    if settings.kept != defaults.kept:
        kept["keep"] = settings.kept
    if settings.ip.limited:
        kept |= {
            "ip_concurrency": settings.ip.concurrency,
            "ip_delay": round(1000 * settings.ip.delay),
        }
    if settings.unverified:
        kept["unverified"] = settings.unverified
    return kept


def limits_of(task: Task) -> TaskLimits:
    """The limits of a task, for the frontier."""
    known = {name: task.settings[name] for name in TaskLimits._fields if name in task.settings}
    limits = TaskLimits(priority=task.priority, **known | {"robots": obeys_robots(task)})
    held = {name: task.settings[name] for name in gates.names() if name in task.settings}
    limits = limits._replace(gates=held)
    if limits.page_limit:  # requests that run the spider's start and closed are not pages
        limits = limits._replace(page_limit=limits.page_limit + 1 + task.ends)
    return limits._replace(layer=task.layer) if limits.layers else limits


def obeys_robots(task: Task) -> bool:
    """Whether the task obeys robots.txt, as its spider was published."""
    obeys: bool = task.settings.get("robots", True)
    return obeys


def limits_as_written(task: Task) -> dict[str, Any]:
    """The limits of a task, with the names, order and units of ``settings``."""
    known = [name for name in SpiderSettings.__struct_fields__ if name in task.settings]
    written = {name: task.settings[name] for name in dict.fromkeys([*known, *task.settings])}
    adaptive = written.pop("adaptive", False)
    written.pop("robots", None)  # it is shown elsewhere
    if "ip_delay" in written:
        written["ip.concurrency"] = written.pop("ip_concurrency")
        written["ip.delay"] = _seconds(written.pop("ip_delay"))
    if "delay" in written:  # stored in milliseconds, as the frontier counts
        seconds = _seconds(written["delay"])
        written["delay"] = "auto" if adaptive else seconds
        if adaptive and seconds:
            written["min_delay"] = seconds
    return written


def _seconds(milliseconds: int) -> float:
    seconds = milliseconds / 1000
    return int(seconds) if seconds.is_integer() else seconds
