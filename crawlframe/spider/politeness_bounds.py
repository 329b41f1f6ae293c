"""Manners: the settings that say how a crawl treats its hosts and the nodes, and which of two is
the rougher."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from crawlframe import gates
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.spider import BLOCKS

AUTO_DELAY = 1.0  # seconds: where "auto" begins, and what a delay in its place must not be below


class Bound(NamedTuple):
    """What a setting must be for a task that is no rougher than its spider. ``value`` of "among",
    "without" and "all" is a tuple, of which it may have members, must not, or must have all;
    "limit" is "most" for settings where 0 is no limit."""

    kind: Literal["least", "most", "limit", "among", "without", "all", "stays"]
    value: Any


def bounds(own: SpiderSettings) -> dict[str, Bound]:
    """The bounds of a spider, by setting. Those that are left out may have any value."""
    found = {name: bound for name, rule in _RULES.items() if (bound := rule(getattr(own, name)))}
    if own.delay == "auto":
        found["delay"] = Bound("least", max(AUTO_DELAY, own.min_delay))
    return found


def rougher(own: SpiderSettings, asked: SpiderSettings) -> dict[str, Bound]:
    """The settings by which a task would be rougher than its spider, with their bounds."""
    limits = bounds(own)
    if asked.delay == "auto":
        del limits["delay"]
        if own.delay != "auto":
            limits["min_delay"] = Bound("least", own.delay)
    else:
        limits.pop("min_delay", None)
    return {name: bound for name, bound in limits.items() if not _fits(getattr(asked, name), bound)}


def _fits(value: Any, bound: Bound) -> bool:
    match bound.kind:
        case "least":
            return bool(value >= bound.value)
        case "most":
            return bool(value <= bound.value)
        case "limit":
            return bool(0 < value <= bound.value)
        case "among":
            return {*value} <= {*bound.value}
        case "all":
            return {*value} >= {*bound.value}
        case "without":
            return {*value}.isdisjoint(bound.value)
    return bool(value == bound.value)


def _least(value: float) -> Bound | None:
    return Bound("least", value) if value else None


def _most(value: float) -> Bound:
    return Bound("most", value)


def _limit(value: float) -> Bound | None:
    return Bound("limit", value) if value else None


def _stays_on(value: bool) -> Bound | None:
    return Bound("stays", True) if value else None


def _no_more_blocks(handled: tuple[int, ...]) -> Bound:
    """What a spider handles does not count as a block of its host."""
    return Bound("without", tuple(status for status in BLOCKS if status not in handled))


_RULES: dict[str, Callable[[Any], Bound | None]] = {
    "delay": lambda value: Bound("least", value),
    "min_delay": _least,
    "concurrency": _most,
    "ip_concurrency": _limit,
    "ip_delay": _least,
    "host_page_limit": _limit,
    "host_byte_limit": _limit,
    "retries": _most,
    "retry_statuses": lambda value: Bound("among", value),
    "handle_statuses": _no_more_blocks,
    "robots": _stays_on,
    "user_agent": lambda value: Bound("stays", value),
    "purpose": lambda value: Bound("stays", value) if value else None,
    "obey_nofollow": _stays_on,
    "obey_noindex": _stays_on,
    "traps": lambda value: Bound("stays", value) if value == "stop" else None,
    # More proxies are more requests to a host.
    "proxy": lambda value: Bound("stays", value),
    "proxy_limits": lambda value: Bound("stays", value),
    # What a task may cost.
    **dict.fromkeys(
        ("max_body", "max_parse", "max_file", "timeout", "file_timeout", "max_redirects",
         "browser_settle", "near_limit"), _most,
    ),
    **dict.fromkeys(
        ("page_limit", "byte_limit", "time_limit", "depth_limit", "layers", "links_per_page",
         "url_length", "repeated_segments", "query_permutations"), _limit,
    ),
    "browser_block": lambda value: Bound("all", value),
    "near_within": lambda value: Bound("stays", value),  # other spiders may compare with its pages
    **dict.fromkeys(gates.names(), lambda value: Bound("stays", value) if value else None),
}  # fmt: skip
