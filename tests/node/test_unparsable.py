"""A page that its callback cannot parse ends with a named reason, and is not tried again."""

from __future__ import annotations

import asyncio
import ipaddress
from pathlib import Path
from typing import Any

import pytest

from crawlframe.code.registry import Registry
from crawlframe.conf import Settings
from crawlframe.fetch.downloader import Downloader
from crawlframe.frontier.records import Claimed, TaskView
from crawlframe.ledger import TaskSpec
from crawlframe.node.worker.run_request import RequestRunner
from crawlframe.node.worker.sieve import Sieve
from crawlframe.outcome import Outcome, Verdict
from crawlframe.request import Request, make_rid
from crawlframe.response import Response

URL = "http://example.com/"
HERE = Settings(allow_private=(ipaddress.ip_network("127.0.0.0/8"),))
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


class Fetched(Downloader):
    """A downloader that has the response already."""

    def __init__(self, body: bytes) -> None:
        super().__init__(HERE)
        self._body = body

    async def fetch(self, request: Request, *others: Any, **more: Any) -> Response:
        return Response(URL, 200, {"Content-Type": "text/html"}, self._body, request)


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    package = tmp_path / "parsing_spiders"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "parsing.py").write_text(SPIDERS)
    return Registry.load(package)


async def outcome_of(registry: Registry, body: bytes, callback: str) -> Outcome:
    async def load_task(task: int) -> TaskSpec:
        return TaskSpec(task, "parsing", {}, 0)

    async def load_cookies(task: int) -> tuple[dict[str, str], int]:
        return {}, 0

    runner = RequestRunner(
        HERE, registry, "", Fetched(body), Sieve(), load_task, load_cookies, lambda slot, rid: None
    )
    request = Request(URL, callback)
    rid = make_rid(1, request.fingerprint())
    claimed = Claimed(rid, 1, request.host, 0, 0, request.encode())
    return await runner.run(claimed, TaskView("running", 0))


@pytest.mark.parametrize(
    ("body", "callback", "reason"),
    [
        (b"<div>" * 30_000, "parse", "too_deep"),
        (b"<div>" * 30_000, "soup", "too_deep"),
        (b"<p " + b" ".join(b"a%d" % n for n in range(20_000)) + b">", "parse", "too_complex"),
        (b"<p>", "other", "callback"),
    ],
)
def test_the_reason_is_named(registry: Registry, body: bytes, callback: str, reason: str) -> None:
    outcome = asyncio.run(outcome_of(registry, body, callback))
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, reason)
    assert outcome.items == []
    assert 'parsing.py", line' in outcome.detail
    if reason != "callback":
        assert URL in outcome.detail
