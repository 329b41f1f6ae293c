"""Pages that a browser renders: their DOM is recorded, and no browser is needed to replay it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from crawlframe import Expect, Request, Response, Spider
from crawlframe.actions import Evaluate, Screenshot
from crawlframe.recorded.folder import Recording
from crawlframe.recorded.record import make
from crawlframe.recorded.recorder import Recorder
from crawlframe.recorded.replay import RecordingReplay
from crawlframe.response.browser_response import RenderedResponse
from tests.recorded.site import SETTINGS, Site

pytest.importorskip("playwright", reason="no playwright here")
pytestmark = pytest.mark.process


class Rendered(Spider):
    name = "rendered"
    settings: ClassVar[dict[str, Any]] = {"delay": 0, "robots": False, "render": "auto"}
    expect = Expect(fields={"price": 1.0})

    def start(self, site: str) -> Iterator[Request]:
        yield Request(f"{site}/script", self.price)
        yield Request(
            f"{site}/script?2", self.shot, actions=[Evaluate("() => 6 * 7"), Screenshot()]
        )

    def price(self, response: Response) -> Iterator[Any]:
        yield {"price": response.css("b::text").get()}

    def shot(self, response: RenderedResponse) -> Iterator[Any]:
        yield {"price": response.results[0], "picture": response.screenshot[:2].hex()}


def test_the_dom_is_recorded(site: Site, tmp_path: Path) -> None:
    settings = replace(SETTINGS, var_dir=tmp_path / "var")
    arguments = {"site": site.url}
    visits = Recorder(Rendered, arguments, settings, pause=0).run(5)
    made = make(tmp_path / "rendered", Rendered, arguments, visits, settings)
    assert made.refused == []
    made.recording.write()
    site.shutdown()
    recording = Recording.read(tmp_path / "rendered")
    assert recording.results["script"]["items"] == [{"price": "7"}]
    [other] = recording.pages.keys() - {"start", "script"}
    assert recording.results[other]["items"] == [{"price": 42, "picture": "ffd8"}]
    for name in recording.pages:
        assert RecordingReplay(recording, Rendered).run(name).snapshot == recording.results[name]
    # The plain page was incomplete, so it was rendered.
    exchanges = recording.pages["script"].exchanges
    assert [exchange.rendered is not None for exchange in exchanges] == [False, True]
    assert b"<b>7</b>" in recording.body(exchanges[1].body)
    assert b"<b>7</b>" not in recording.body(exchanges[0].body)
