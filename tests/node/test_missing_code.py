"""A queued request whose values need a class that this code lacks waits for code that has it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import msgpack
import pytest

from crawlframe.conf import Settings
from crawlframe.frontier.client.records import Claimed, TaskView
from crawlframe.node.master.stalls import _callbacks
from crawlframe.node.running_marks import LOOP
from crawlframe.node.worker.run_request import RequestRunner
from crawlframe.request.request import Request
from crawlframe.run.outcome import Outcome, Verdict

URL = "http://example.com/a"
RID = b"r" * 16


@dataclass
class House:
    price: int


class Trap:
    """Runs the code that a test puts there when an instance is made from a record."""

    act: Callable[[], object] = lambda: None


@dataclass
class Trapped:
    def __new__(cls) -> Trapped:
        Trap.act()
        return super().__new__(cls)


def encoded() -> bytes:
    house = Request(URL, "page", errback="failed", cb_kwargs={"house": House(1)}, depth=2)
    return house.encode().replace(b"House", b"Hovel")


def claimed(record: bytes, deliveries: int = 0, kills: int = 0) -> Claimed:
    return Claimed(RID, 1, "example.com", 0, deliveries, record, kills=kills)


async def no_task(task: int) -> None:
    """The answer for a task that is not in the database."""


class Leaving(BaseException):
    """An exception such as SystemExit."""


def run(
    record: bytes,
    state: str = "running",
    mark: Callable[[int, bytes], None] = lambda slot, rid: None,
    **more: int,
) -> Outcome:
    async def one() -> Outcome:
        nothing: Any = SimpleNamespace(load_task=no_task)
        runner = RequestRunner(Settings(), nothing, "v1", nothing, nothing, mark)
        return await runner.run(claimed(record, **more), TaskView(state, 0))

    return asyncio.run(one())


def test_it_is_parked_by_the_version_that_lacks_the_class() -> None:
    outcome = run(encoded())
    assert (outcome.verdict, outcome.version) == (Verdict.PARK, "v1")
    assert "test_missing_code.Hovel of a value in cb_kwargs or meta is missing" in outcome.reason


def test_a_request_with_missing_code_can_be_cancelled() -> None:
    outcome = run(encoded(), "cancelling")
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "cancelled")
    assert (outcome.url, outcome.callback, outcome.depth) == (URL, "page", 2)


def test_a_record_of_a_newer_crawlframe_is_parked_too() -> None:
    assert run(msgpack.packb([6, URL, "", 0])).verdict is Verdict.PARK


@pytest.mark.parametrize("record", [b"junk", msgpack.packb([2, URL])])
def test_junk_is_an_error(record: bytes) -> None:
    outcome = run(record)
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "bad_request")


# -- records whose decoding kills ------------------------------------------------------------------


@pytest.fixture
def deadly(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], bytes]:
    """The record of a request whose decoding does something."""

    def make(act: Callable[[], object]) -> bytes:
        record = Request(URL, "page", cb_kwargs={"trapped": Trapped()}, depth=2).encode()
        monkeypatch.setattr(Trap, "act", staticmethod(act))
        return record

    return make


@pytest.mark.parametrize(
    ("state", "more", "reason"),
    [
        ("running", {"kills": 2, "deliveries": 2}, "poison"),
        ("running", {"deliveries": 6}, "poison"),
        ("cancelling", {}, "cancelled"),
    ],
)
def test_what_is_not_to_run_is_not_decoded(
    deadly: Callable[[Callable[[], object]], bytes], state: str, more: dict[str, int], reason: str
) -> None:
    """Otherwise a request that kills when decoded would keep killing, and never become poison."""
    decoded: list[str] = []
    record = deadly(lambda: decoded.append("again"))
    outcome = run(record, state, lambda slot, rid: None, **more)
    assert decoded == []
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, reason)
    assert (outcome.url, outcome.callback, outcome.depth) == (URL, "page", 2)


def test_a_request_is_marked_while_it_is_decoded(
    deadly: Callable[[Callable[[], object]], bytes],
) -> None:
    """So that it is to blame if it kills its worker, not one whose callback runs in a thread."""
    marks: list[object] = []
    run(deadly(lambda: marks.append("decoded")), mark=lambda slot, rid: marks.append((slot, rid)))
    assert marks == [(LOOP, RID), "decoded", (LOOP, b"")]


@pytest.mark.parametrize("error", [RuntimeError, AttributeError, Leaving, KeyError])
def test_code_that_fails_while_it_is_decoded_is_another_versions(
    deadly: Callable[[Callable[[], object]], bytes], error: type[BaseException]
) -> None:
    def fail() -> None:
        raise error("not here")

    outcome = run(deadly(fail))
    assert (outcome.verdict, outcome.version) == (Verdict.PARK, "v1")
    assert "not here" in outcome.reason


def test_a_master_names_its_callbacks_without_the_class() -> None:
    assert _callbacks(claimed(encoded())) == ["page", "failed"]
