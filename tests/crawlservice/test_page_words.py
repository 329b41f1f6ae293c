"""How values are put into words on pages."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import translation

from crawlframe import errors
from crawlservice.display import in_words, readable, reason_words
from crawlservice.tasks.progress.phrases import PHRASES
from crawlservice.templatetags.crawls import delay_in_words, pairs
from tests.crawlservice.web import texts

DATA = {"name": "Chair", "tags": ["new", "oak"], "sizes": [{"w": 3}, {"h": 0}], "no": None}


def test_data_has_no_marks_of_json() -> None:
    assert in_words(DATA) == "name Chair · tags new, oak · sizes (w 3), (h 0) · no –"
    page = readable(DATA | {"<b>": "http://x.example/", "deep": [[[[[[[[]]]]]]]]})
    shown = page.partition("<details")[0]
    assert "{" not in shown
    assert "<dt>&lt;b&gt;</dt><dd><a " in shown
    assert texts(page, "tr") == ["wh", "3–", "–0"]
    assert "&quot;oak&quot;" in page, "the JSON is below"


def test_a_delay() -> None:
    words = ["as fast as each host can take", "no delay", "0.5 s between two requests to a host"]
    assert [delay_in_words(delay) for delay in ("auto", 0, 0.5)] == words


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        ({"command": True}, ""),
        ({"by_itself": True, "requests": 3}, "requests 3"),
        ({"fields": ["url", "name"], "old_name": "a"}, "fields url, name · old name a"),
        ({"on": True, "to": None, "of": {"a": 1}}, "on true · to – · of a 1"),
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
