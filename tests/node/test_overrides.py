"""Settings of a task in a worker."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from crawlframe import Request, Response, Spider
from crawlframe.run.outcome import Outcome
from tests.node.runner import URL, Ready, Tasks


class Shop(Spider):
    name = "shop"
    settings: ClassVar[dict[str, Any]] = {"retries": 2, "purpose": "search"}

    def parse(self, response: Response) -> Any:
        yield {"status": response.status}


def run(status: int, **settings: Any) -> Outcome:
    tasks = Tasks(Shop, Ready(status=status))
    assert tasks.spec is not None
    tasks.spec = tasks.spec._replace(settings=settings)
    return asyncio.run(tasks.run(Request(URL)))


def test_the_worker_goes_by_those_of_the_task() -> None:
    assert run(404).reason == "http_404"
    assert run(404, handle_statuses=[404]).results.items == [b'{"status":404}']
    assert run(500).verdict == "retry"
    assert run(500, retries=0).verdict == "error"


def test_those_that_no_longer_fit_the_spider_park_its_requests() -> None:
    outcome = run(200, robots=False)
    assert outcome.verdict == "park"
    assert "purpose needs robots" in outcome.reason
