"""How values are put into words on pages."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import translation

from crawlframe import errors
from crawlservice.display import reason_words
from crawlservice.tasks.progress.outcomes import PHRASES
from crawlservice.templatetags.crawls import limits_in_words, pairs


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"delay": "auto", "min_delay": 2}, ["as fast as each host can take",
            "at least 2 s between two requests to a host"]),
        ({"delay": 0, "concurrency": 64}, ["no delay", "at most 64 requests to a host at once"]),
        ({"delay": 0.5, "page_limit": 0}, ["0.5 s between two requests to a host"]),
        ({"proxy": "any", "layers": 3}, ["proxy any", "layers 3"]),
        ({}, []),
    ],
)  # fmt: skip
def test_limits(limits: dict[str, Any], words: list[str]) -> None:
    assert limits_in_words(limits) == words


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        ({"command": True}, ""),
        ({"by_itself": True, "requests": 3}, "requests 3"),
        ({"fields": ["url", "name"], "old_name": "a"}, "fields url, name · old name a"),
        ({"on": True, "to": None, "of": {"a": 1}}, 'on true · to null · of {"a": 1}'),
    ],
)
def test_details_of_actions(detail: dict[str, Any], words: str) -> None:
    assert pairs(detail) == words


def test_every_reason_of_an_error_has_a_phrase() -> None:
    kinds = {kind for kind in vars(errors).values() if isinstance(kind, type)}
    reasons = {kind.reason for kind in kinds if issubclass(kind, errors.FetchError)}
    assert reasons - {errors.FetchError.reason} <= PHRASES.keys()
    assert len(reasons) > 25


def test_reasons_in_the_language_of_the_reader() -> None:
    assert reason_words("dns") == '<span title="the host has no address">dns</span>'
    assert reason_words("http_404") == "http_404"
    with translation.override("zh-hans"):
        assert reason_words("dns").startswith('<span title="dns">')
        assert str(PHRASES["dns"]) in reason_words("dns")
