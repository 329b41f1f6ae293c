"""A queued request whose values need a class that this code lacks waits for code that has it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import msgpack
import pytest

from crawlframe.conf import Settings
from crawlframe.frontier.records import Claimed, TaskView
from crawlframe.node.master.stalls import _callbacks
from crawlframe.node.worker.run_request import RequestRunner
from crawlframe.outcome import Outcome, Verdict
from crawlframe.request import Request

URL = "http://example.com/a"
RID = b"r" * 16


@dataclass
class House:
    price: int


def encoded() -> bytes:
    house = Request(URL, "page", errback="failed", cb_kwargs={"house": House(1)}, depth=2)
    return house.encode().replace(b"House", b"Hovel")


def claimed(record: bytes) -> Claimed:
    return Claimed(RID, 1, "example.com", 0, 0, record)


def run(record: bytes, state: str = "running") -> Outcome:
    async def one() -> Outcome:
        nothing: Any = SimpleNamespace(get=None)
        runner = RequestRunner(
            Settings(), nothing, "v1", nothing, nothing, nothing, nothing, lambda *_: None
        )
        return await runner.run(claimed(record), TaskView(state, 0))

    return asyncio.run(one())


def test_it_is_parked_by_the_version_that_lacks_the_class() -> None:
    outcome = run(encoded())
    assert (outcome.verdict, outcome.version) == (Verdict.PARK, "v1")
    assert "test_missing_code.Hovel of a value in cb_kwargs or meta is missing" in outcome.reason


def test_it_can_be_cancelled() -> None:
    outcome = run(encoded(), "cancelling")
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "cancelled")
    assert (outcome.url, outcome.callback, outcome.depth) == (URL, "page", 2)


def test_a_record_of_a_newer_crawlframe_is_parked_too() -> None:
    assert run(msgpack.packb([4, URL, "", 0])).verdict is Verdict.PARK


@pytest.mark.parametrize("record", [b"junk", msgpack.packb([2, URL])])
def test_junk_is_an_error(record: bytes) -> None:
    outcome = run(record)
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "bad_request")


def test_a_master_names_its_callbacks_without_the_class() -> None:
    assert _callbacks(claimed(encoded())) == ["page", "failed"]
