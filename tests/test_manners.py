"""What a task may change of its spider's settings without being rougher to hosts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from crawlframe.manners import Bound, bounds, rougher
from crawlframe.overrides import OVERRIDABLE, overridden
from crawlframe.spider_settings import SpiderSettings

# Settings that say how much a task fetches or what it keeps, not how it treats a host.
OTHERS = {
    "near_duplicates", "near_within", "near_likeness", "near_limit",
    "browser_block", "browser_failure_pictures", "browser_settle",
    "byte_limit", "cookies", "denoise", "depth_limit", "downloader", "failed_share", "fetch_only",
    "aliases", "layers",
    "file_timeout",
    "conditional", "keep", "links_per_page", "max_age", "max_body", "max_file", "max_redirects",
    "page_limit", "pause_layers", "query_permutations", "repeated_segments", "same_content",
    "skip_unchanged", "keep_partial",
    "time_limit", "timeout", "url_length",
}  # fmt: skip
STRICT = SpiderSettings(
    delay=2,
    concurrency=4,
    ip_concurrency=6,
    ip_delay=0.5,
    host_page_limit=100,
    host_byte_limit=1000,
    purpose="search",
    obey_nofollow=True,
    obey_noindex=True,
    traps="stop",
    user_agent="me/1",
)


def found(own: dict[str, Any] | SpiderSettings, given: dict[str, Any]) -> dict[str, Bound]:
    settings = own if isinstance(own, SpiderSettings) else msgspec.convert(own, SpiderSettings)
    return rougher(settings, overridden(settings, given))


@pytest.mark.parametrize(
    ("own", "given"),
    [
        (STRICT, {}),
        (STRICT, {"delay": 2, "concurrency": 4, "ip_concurrency": 6, "user_agent": "me/1"}),
        (STRICT, {"delay": 9, "concurrency": 1, "ip_concurrency": 1, "ip_delay": 1, "retries": 0}),
        (STRICT, {"host_page_limit": 1, "host_byte_limit": 999, "retry_statuses": [503, 500]}),
        (STRICT, {"delay": "auto", "min_delay": 2}),
        (STRICT, {"handle_statuses": [404, 410], "timeout": 99, "page_limit": 0, "max_body": 9}),
        ({}, {"delay": 1}),
        ({}, {"min_delay": 3}),
        ({"min_delay": 2}, {"delay": 2}),
        ({}, {"ip_concurrency": 999, "host_page_limit": 10, "traps": "stop", "purpose": "search"}),
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
        (STRICT, {"delay": 1.9}, Bound("least", 2.0)),
        (STRICT, {"delay": 0}, Bound("least", 2.0)),
        ({}, {"delay": 0.9}, Bound("least", 1.0)),
        ({"min_delay": 3}, {"delay": 2}, Bound("least", 3.0)),
        ({"min_delay": 3}, {"min_delay": 2}, Bound("least", 3.0)),
        (STRICT, {"concurrency": 5}, Bound("most", 4)),
        (STRICT, {"ip_concurrency": 7}, Bound("limit", 6)),
        (STRICT, {"ip_concurrency": 0}, Bound("limit", 6)),
        (STRICT, {"ip_delay": 0.4}, Bound("least", 0.5)),
        (STRICT, {"host_page_limit": 0}, Bound("limit", 100)),
        (STRICT, {"host_byte_limit": 1001}, Bound("limit", 1000)),
        (STRICT, {"retries": 3}, Bound("most", 2)),
        (STRICT, {"retry_statuses": [500, 403]}, Bound("among", STRICT.retry_statuses)),
        (STRICT, {"handle_statuses": [404, 429]}, Bound("without", (403, 429, 503))),
        ({"handle_statuses": (429,)}, {"handle_statuses": [403]}, Bound("without", (403, 503))),
        ({}, {"robots": False}, Bound("stays", True)),
        (STRICT, {"user_agent": "you/2"}, Bound("stays", "me/1")),
        ({}, {"user_agent": "you/2"}, Bound("stays", None)),
        (STRICT, {"purpose": "ai-train"}, Bound("stays", "search")),
        (STRICT, {"purpose": None}, Bound("stays", "search")),
        (STRICT, {"obey_nofollow": False}, Bound("stays", True)),
        (STRICT, {"obey_noindex": False}, Bound("stays", True)),
        (STRICT, {"traps": "report"}, Bound("stays", "stop")),
    ],
)
def test_what_is_rougher(own: Any, given: dict[str, Any], bound: Bound) -> None:
    assert found(own, given) == dict.fromkeys(given, bound)


def test_auto_in_place_of_a_delay_needs_it_as_the_least() -> None:
    assert found(STRICT, {"delay": "auto"}) == {"min_delay": Bound("least", 2.0)}
    assert found(STRICT, {"delay": "auto", "min_delay": 1}) == {"min_delay": Bound("least", 2.0)}


def test_every_setting_was_considered() -> None:
    """A new one belongs into the rules, or above."""
    assert {*bounds(STRICT)} | {"robots", "min_delay"} == {*OVERRIDABLE} - OTHERS
