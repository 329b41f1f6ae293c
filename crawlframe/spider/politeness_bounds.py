"""Politeness bounds: the settings that limit how roughly a crawl treats its hosts and the nodes,
and their order."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from crawlframe import gates
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.spider import BLOCKS

AUTO_DELAY = 1.0  # seconds: the start of "auto", and the least delay in its place


class Bound(NamedTuple):
    """The bound of a setting for a task that is no rougher than its spider. ``value`` of "subset",
    "disjoint" and "superset" is a tuple; "max_or_zero" is for settings where 0 is no limit."""

    kind: Literal["min", "max", "max_or_zero", "subset", "disjoint", "superset", "fixed"]
    value: Any


def bounds(own: SpiderSettings) -> dict[str, Bound]:
    """The bounds of a spider, by setting. Other settings may have any value."""
    found = {name: bound for name, rule in _RULES.items() if (bound := rule(attrgetter(name)(own)))}
    if own.delay == "auto":
        found["delay"] = Bound("min", max(AUTO_DELAY, own.min_delay))
    return found


def rougher(own: SpiderSettings, asked: SpiderSettings) -> dict[str, Bound]:
    """The settings by which a task would be rougher than its spider, with their bounds."""
    limits = bounds(own)
    if asked.delay == "auto":
        del limits["delay"]
        if own.delay != "auto":
            limits["min_delay"] = Bound("min", own.delay)
    else:
        limits.pop("min_delay", None)
    asks = {name: attrgetter(name)(asked) for name in limits}
    return {name: bound for name, bound in limits.items() if not _fits(asks[name], bound)}


def _fits(value: Any, bound: Bound) -> bool:
    match bound.kind:
        case "min":
            return bool(value >= bound.value)
        case "max":
            return bool(value <= bound.value)
        case "max_or_zero":
            return bool(0 < value <= bound.value)
        case "subset":
            return {*value} <= {*bound.value}
        case "superset":
            return {*value} >= {*bound.value}
        case "disjoint":
            return {*value}.isdisjoint(bound.value)
    return bool(value == bound.value)


def _min(value: float) -> Bound | None:
    return Bound("min", value) if value else None


def _max(value: float) -> Bound:
    return Bound("max", value)


def _max_or_zero(value: float) -> Bound | None:
    return Bound("max_or_zero", value) if value else None


def _fixed_on(value: bool) -> Bound | None:
    return Bound("fixed", True) if value else None


def _no_more_blocks(handled: tuple[int, ...]) -> Bound:
    """A status that a spider handles does not count as a block of its host."""
    return Bound("disjoint", tuple(status for status in BLOCKS if status not in handled))


_RULES: dict[str, Callable[[Any], Bound | None]] = {
    "delay": lambda value: Bound("min", value),
    "min_delay": _min,
    "concurrency": _max,
    "ip.concurrency": _max_or_zero,
    "ip.delay": _min,
    "host_page_limit": _max_or_zero,
    "host_byte_limit": _max_or_zero,
    "retries": _max,
    "retry_statuses": lambda value: Bound("subset", value),
    "handle_statuses": _no_more_blocks,
    "robots": _fixed_on,
    "user_agent": lambda value: Bound("fixed", value),
    "purpose": lambda value: Bound("fixed", value) if value else None,
    "obey_nofollow": _fixed_on,
    "obey_noindex": _fixed_on,
    "traps": lambda value: Bound("fixed", value) if value == "stop" else None,
    # More proxies are more requests to a host.
    "proxy": lambda value: Bound("fixed", value),
    "proxy_limits": lambda value: Bound("fixed", value),
    # The cost of a task.
    **dict.fromkeys(
        ("max_body", "max_parse", "max_file", "timeout", "file_timeout", "max_redirects",
         "browser.settle", "near_duplicates.limit"), _max,
    ),
    **dict.fromkeys(
        ("page_limit", "byte_limit", "time_limit", "depth_limit", "layers", "links_per_page",
         "url_length", "repeated_segments", "query_permutations"), _max_or_zero,
    ),
    "browser.block": lambda value: Bound("superset", value),
    # Other spiders may compare with its pages.
    "near_duplicates.within": lambda value: Bound("fixed", value),
    **dict.fromkeys(gates.names(), lambda value: Bound("fixed", value) if value else None),
}  # fmt: skip
