"""Settings of single tasks over their spider's."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from crawlframe.errors import ArgumentError
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.task_settings import overridden


def changed(own: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The settings that differ from the defaults."""
    found = overridden(msgspec.convert(own, SpiderSettings), given)
    return dict(msgspec.to_builtins(found))


def test_without_any_the_settings_are_those_of_the_spider() -> None:
    own = SpiderSettings(delay=3)
    assert overridden(own, {}) is own


@pytest.mark.parametrize(
    ("own", "given", "found"),
    [
        ({"delay": 3, "retries": 1}, {"delay": 1}, {"delay": 1.0, "retries": 1}),
        ({"robots": False}, {"robots": True}, {}),
        ({"min_delay": 2}, {"delay": 1}, {"delay": 1.0}),
        ({"min_delay": 2}, {"delay": "auto"}, {"min_delay": 2.0}),
        ({"page_limit": 9}, {"page_limit": None}, {}),
        ({}, {"handle_statuses": [404]}, {"handle_statuses": (404,)}),
        (
            {"reuse": {"conditional": True}},
            {"reuse": 9},
            {"reuse": {"max_age": 9, "conditional": True}},
        ),
        ({"ip": {"delay": 1}}, {"ip": {"concurrency": 2}}, {"ip": {"concurrency": 2, "delay": 1}}),
        ({"purpose": "search"}, {"purpose": None, "robots": False}, {"robots": False}),
    ],
)
def test_they_replace_single_settings(
    own: dict[str, Any], given: dict[str, Any], found: dict[str, Any]
) -> None:
    assert changed(own, given) == found


@pytest.mark.parametrize(
    ("own", "given", "words"),
    [
        ({}, {"delay": -1}, "delay must not be negative"),
        ({}, {"delay": "2"}, "delay must be a number or auto"),
        ({}, {"retries": "two"}, "retries must be a whole number, at least 0, not text$"),
        (
            {},
            {"retry_statuses": [1, "x"]},
            r"retry_statuses\[1\] must be a whole number, not text$",
        ),
        ({}, {"ip": {"delay": -1}}, "ip.delay must be a number, at least 0$"),
        ({}, {"keep": "some"}, "keep must be one of sample, errors, all, none$"),
        ({}, {"dellay": 1}, "there is no setting 'dellay', did you mean 'delay'|did you mean"),
        ({}, {"DOWNLOAD_DELAY": 1}, "DOWNLOAD_DELAY is Scrapy's name; write 'delay'"),
        ({"purpose": "search"}, {"robots": False}, "purpose needs robots"),
        ({"delay": 1}, {"min_delay": 1}, "min_delay belongs to delay"),
        ({}, {"headers": {"Authorization": "x"}}, "headers are set in the code of the spider"),
        ({}, {"user_agent": "a\r\nX: y"}, "user_agent has a line break"),
        ({}, {"user_agent": "a\ud800"}, "user_agent has a line break or another character"),
        ({}, {"timeout": 1e300}, "timeout is 1e[+]300; it must be at most 1,000,000,000"),
        ({}, {"failed_share": float("nan")}, "failed_share is nan"),
        ({}, {"ip": {"delay": float("inf")}}, "ip.delay is inf"),
        ({}, {"ip": 3}, "ip is a table; write ip.concurrency=..., ip.delay=..."),
        ({}, {"reuse.max_age": 3}, 'write "reuse": {"max_age": ...}'),
        ({}, {"reuse": {"maxage": 3}}, "no setting 'reuse.maxage'"),
        ({"keep": "none"}, {"reuse": 3}, "reuse needs pages that are kept; leave keep out"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(
    own: dict[str, Any], given: dict[str, Any], words: str
) -> None:
    with pytest.raises(ArgumentError, match=f"settings of the task: .*({words})"):
        changed(own, given)
