"""The stages and link filters of a crawl: its lists have only those that it uses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from crawlframe import CallNext, Request, Response, Spider
from crawlframe.conf import Settings
from crawlframe.node.worker.crawl import stage
from crawlframe.node.worker.fetch import stages
from crawlframe.node.worker.robots.guard import RobotsGuard
from crawlframe.node.worker.task.open_task import CrawlMaker
from crawlframe.run.ledger import TaskSpec
from tests.node.runner import Ready, Spiders, Tasks
from tests.node.test_proxies import Pool
from tests.node.test_robots import Cluster

URL = "http://a.example/"


class Layer:
    async def fetch(self, request: Request, call_next: CallNext) -> Response:
        return await call_next(request)


class Plain(Spider):
    name = "plain"
    settings: ClassVar[dict[str, Any]] = {"robots": False}

    def parse(self, response: Response) -> None: ...


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """The names of the stages that a request of a spider passes, the outermost first."""
    made: list[list[str]] = []

    def around(found: Any, fetch: Any) -> Any:
        made.append([getattr(one, "func", one).__qualname__ for one in found])
        return original(found, fetch)

    original = stage.around
    monkeypatch.setattr(stages, "around", around)

    def listed(*bases: Any, **settings: Any) -> list[str]:
        given = {key: settings.pop(key) for key in ("middlewares", "options") if key in settings}
        own = {"settings": Plain.settings | settings, "middlewares": given.get("middlewares", ())}
        kind = type("Of", (Plain,), own)
        downloader = Ready()
        guard = RobotsGuard(Settings(), downloader, Cluster())
        tasks = Tasks(kind, downloader, robots=guard, proxies=Pool())
        asyncio.run(tasks.run(Request(URL, **given.get("options", {}))))
        return made[-1]

    return listed


PATH = ["UsageSignals.fetch", "Fetching._follow", "Turns.fetch", "ResponseClassifier.fetch"]


def test_a_plain_request_passes_what_every_request_does(listed: Callable[..., list[str]]) -> None:
    assert listed() == PATH


@pytest.mark.parametrize(
    ("settings", "more"),
    [
        ({"robots": True}, ["RobotsGuard.fetch"]),
        ({"robots": True, "purpose": "ai-train"}, ["TdmGuard.fetch"]),
        ({"byte_limit": 1}, ["spare_bytes", "count_bytes"]),
        ({"ip": {"delay": 1.0}}, ["Addresses.fetch"]),
        ({"proxy": "pool"}, ["Proxying.fetch"]),
        ({"middlewares": (Layer,)}, ["AuthorsLayers.fetch"]),
        ({"options": {"timeout": 3.0}}, ["Rendering.fetch", "Proxying.fetch", "take_file"]),
    ],
)
def test_what_is_used_is_in_the_list(
    listed: Callable[..., list[str]], settings: dict[str, Any], more: list[str]
) -> None:
    found = listed(**settings)
    assert [one for one in found if one in PATH] == PATH
    assert [one for one in found if one in more] == more


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({}, ["Ended", "KnownFilter", "LinkLimits"]),
        ({"url_length": 0, "repeated_segments": 0}, ["Ended", "KnownFilter"]),
        (
            {"depth_limit": 3, "denoise": "template", "reuse": {"skip_unchanged": True}},
            ["Repeated", "Ended", "PageLimits", "TemplateOnce", "KnownFilter", "LinkLimits"],
        ),
        ({"downloader": "browser"}, ["Ended", "RenderedFragments", "KnownFilter", "LinkLimits"]),
    ],
)
def test_the_filters_of_links_are_those_that_the_crawl_uses(
    settings: dict[str, Any], names: list[str]
) -> None:
    kind = type("Of", (Plain,), {"settings": settings})
    crawl = CrawlMaker(Spiders(kind), 1.0).make(TaskSpec(1, "plain", {}, 0))
    assert [type(one).__name__ for one in crawl.filters] == names
