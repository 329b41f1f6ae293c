"""Changes of a spider's settings that a task may make without being rougher to hosts."""

from __future__ import annotations

import contextlib
from operator import attrgetter
from typing import Any

import msgspec
import pytest

from crawlframe.errors import ArgumentError
from crawlframe.spider.politeness_bounds import Bound, bounds, rougher
from crawlframe.spider.setting_tables import AddressSettings, NearSettings, by_part, flat, nested
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.task_settings import CEILING, MOST_SECONDS, OVERRIDABLE, SECONDS, overridden

# Settings that never cost more than their type and range allow, and never make a task rougher: the
# decision about each. reuse.max_age: more is less to fetch.
FREE = {
    "aliases", "browser.failure_pictures", "cookies", "denoise", "downloader", "failed_share",
    "fetch_only", "keep", "keep_partial", "near_duplicates.action", "near_duplicates.likeness",
    "pause_layers", "reuse.conditional", "reuse.max_age", "reuse.skip_unchanged", "selector_tree",
}  # fmt: skip
STRICT = SpiderSettings(
    window="22:00-06:00",
    delay=2,
    concurrency=4,
    ip=AddressSettings(concurrency=6, delay=0.5),
    host_page_limit=100,
    host_byte_limit=1000,
    purpose="search",
    obey_nofollow=True,
    obey_noindex=True,
    traps="stop",
    user_agent="me/1",
    near_duplicates=NearSettings(),
    page_limit=1000,
    byte_limit=1 << 30,
    time_limit=3600,
    depth_limit=5,
    layers=3,
    links_per_page=50,
    query_permutations=9,
)


def found(own: dict[str, Any] | SpiderSettings, given: dict[str, Any]) -> dict[str, Bound]:
    settings = own if isinstance(own, SpiderSettings) else msgspec.convert(own, SpiderSettings)
    return rougher(settings, overridden(settings, given))


@pytest.mark.parametrize(
    ("own", "given"),
    [
        (STRICT, {}),
        (STRICT, {"delay": 2, "concurrency": 4, "ip": {"concurrency": 6}, "user_agent": "me/1"}),
        (STRICT, {"delay": 9, "concurrency": 1, "ip": {"concurrency": 1, "delay": 1}}),
        (STRICT, {"retries": 0}),
        (STRICT, {"host_page_limit": 1, "host_byte_limit": 999, "retry_statuses": [503, 500]}),
        (STRICT, {"delay": "auto", "min_delay": 2}),
        (STRICT, {"handle_statuses": [404, 410], "timeout": 9, "page_limit": 9, "max_body": 9}),
        ({}, {"delay": 1}),
        ({}, {"min_delay": 3}),
        ({"min_delay": 2}, {"delay": 2}),
        ({}, {"ip": {"concurrency": 999}, "host_page_limit": 10, "traps": "stop"}),
        ({}, {"purpose": "search"}),
        ({"robots": False}, {"robots": True, "obey_nofollow": True, "obey_noindex": True}),
        ({"robots": False}, {"robots": False}),
        ({"traps": "report"}, {"traps": "off"}),
        ({"handle_statuses": (403,)}, {"handle_statuses": [403, 404]}),
    ],
)
def test_what_is_as_gentle_or_gentler(own: Any, given: dict[str, Any]) -> None:
    assert found(own, given) == {}


@pytest.mark.parametrize(
    ("own", "given", "bound"),
    [
        (STRICT, {"delay": 1.9}, Bound("min", 2.0)),
        (STRICT, {"delay": 0}, Bound("min", 2.0)),
        ({}, {"delay": 0.9}, Bound("min", 1.0)),
        ({"min_delay": 3}, {"delay": 2}, Bound("min", 3.0)),
        ({"min_delay": 3}, {"min_delay": 2}, Bound("min", 3.0)),
        (STRICT, {"concurrency": 5}, Bound("max", 4)),
        (STRICT, {"ip": {"concurrency": 7}}, Bound("max_or_zero", 6)),
        (STRICT, {"ip": {"concurrency": 0}}, Bound("max_or_zero", 6)),
        (STRICT, {"ip": {"delay": 0.4}}, Bound("min", 0.5)),
        (STRICT, {"host_page_limit": 0}, Bound("max_or_zero", 100)),
        (STRICT, {"host_byte_limit": 1001}, Bound("max_or_zero", 1000)),
        (STRICT, {"retries": 3}, Bound("max", 2)),
        (STRICT, {"retry_statuses": [500, 403]}, Bound("subset", STRICT.retry_statuses)),
        (STRICT, {"handle_statuses": [404, 429]}, Bound("disjoint", (403, 429, 503))),
        ({"handle_statuses": (429,)}, {"handle_statuses": [403]}, Bound("disjoint", (403, 503))),
        ({}, {"robots": False}, Bound("fixed", True)),
        (STRICT, {"user_agent": "you/2"}, Bound("fixed", "me/1")),
        ({}, {"user_agent": "you/2"}, Bound("fixed", None)),
        (STRICT, {"window": ""}, Bound("fixed", "22:00-06:00")),
        (STRICT, {"purpose": "ai-train"}, Bound("fixed", "search")),
        (STRICT, {"purpose": None}, Bound("fixed", "search")),
        (STRICT, {"obey_nofollow": False}, Bound("fixed", True)),
        (STRICT, {"obey_noindex": False}, Bound("fixed", True)),
        (STRICT, {"traps": "report"}, Bound("fixed", "stop")),
        ({}, {"max_body": 10**12}, Bound("max", 32 << 20)),
        ({}, {"timeout": 31}, Bound("max", 30.0)),
        ({"timeout": 99}, {"timeout": 100}, Bound("max", 99.0)),
        (STRICT, {"page_limit": 0}, Bound("max_or_zero", 1000)),
        ({}, {"url_length": 0}, Bound("max_or_zero", 2083)),
        (
            {},
            {"browser": {"block": ["fonts", "media"]}},
            Bound("superset", ("images", "fonts", "media", "trackers")),
        ),
        ({}, {"near_duplicates": {"within": "shop"}}, Bound("fixed", "task")),
    ],
)
def test_rougher_settings_break_a_bound(own: Any, given: dict[str, Any], bound: Bound) -> None:
    assert found(own, given) == dict.fromkeys(flat(given), bound)


def test_auto_in_place_of_a_delay_needs_it_as_the_least() -> None:
    assert found(STRICT, {"delay": "auto"}) == {"min_delay": Bound("min", 2.0)}
    assert found(STRICT, {"delay": "auto", "min_delay": 1}) == {"min_delay": Bound("min", 2.0)}


def test_every_setting_was_considered() -> None:
    """A new one belongs into the rules, or above."""
    assert {*bounds(STRICT)} | {"robots", "min_delay"} == {*by_part(OVERRIDABLE)} - FREE


def test_no_number_can_be_raised_without_limit() -> None:
    """Whatever stands for much in a setting: its largest value, or 0 for no limit."""
    for name in by_part(OVERRIDABLE):
        own = attrgetter(name)(STRICT)
        if isinstance(own, bool) or not isinstance(own, int | float) or name in FREE:
            continue
        values = [0, 1 << 23, MOST_SECONDS if name in SECONDS else CEILING]
        refused = []
        for value in values:
            with contextlib.suppress(ArgumentError):  # it fits no task at all
                refused.append(found(STRICT, nested({name: value})))
        assert any(name in one for one in refused) or name == "min_delay", name
