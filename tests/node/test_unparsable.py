"""A page that its callback cannot parse ends with a named reason, and is not tried again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from crawlframe.request.request import Request
from crawlframe.run.outcome import Verdict
from tests.node.runner import Runs, registry_of

URL = "http://example.com/"
SPIDERS = """
from crawlframe import Request, Spider

class Parsing(Spider):
    name = "parsing"

    def parse(self, response):
        yield {"before": 1}
        for link in response.links():
            yield Request(link)

    async def soup(self, response):
        yield {"title": response.soup.title}

    def other(self, response):
        raise ValueError("no")
"""


@pytest.mark.parametrize(
    ("body", "callback", "reason"),
    [
        (b"<i>" * 60_000, "parse", "too_deep"),
        (b"<div>" * 30_000, "soup", "too_deep"),
        (b"<p " + b" ".join(b"a%d" % n for n in range(40_000)) + b">", "parse", "too_complex"),
        (b"<p>", "other", "callback"),
    ],
)
def test_the_reason_is_named(tmp_path: Path, body: bytes, callback: str, reason: str) -> None:
    task = Runs(registry_of(tmp_path, SPIDERS), "parsing", body)
    outcome = asyncio.run(task.run(Request(URL, callback)))
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, reason)
    assert outcome.results.items == []
    assert 'shop.py", line' in outcome.detail
    if reason != "callback":
        assert URL in outcome.detail
