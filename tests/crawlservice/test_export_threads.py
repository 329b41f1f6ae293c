"""The leading steward's exports: each in its thread, so that one that hangs delays no other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from crawlframe.conf import Settings
from crawlframe.frontier import Frontier
from crawlservice.chores.threads import ChoreThreads
from crawlservice.exports import exporter
from crawlservice.exports.chores import exporters
from crawlservice.exports.target import BatchName, ExportBatch, Limits, Writer
from crawlservice.models import Export
from tests.crawlservice.chores import until
from tests.crawlservice.exporting import add, fill, made_task

pytestmark = pytest.mark.usefixtures("orm", "quick_looks")


@pytest.fixture
def quick_looks(
    tmp_path: Path, settings_with: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings_with(EXPORT_DIR=tmp_path / "exports")
    monkeypatch.setattr(exporter, "IDLE_SECONDS", 0.02)


def alive() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("export ")]


@pytest.fixture
def exports(published: Frontier) -> Iterator[ChoreThreads]:
    made = ChoreThreads(partial(exporters, Settings()))
    yield made
    made.stop()
    until(lambda: not alive(), "the threads do not end")


class Hanging:
    """A target that answers when it is released."""

    limits = Limits(100, 1 << 20)
    released = threading.Event()

    def send(self, name: BatchName, batch: ExportBatch) -> str:
        assert self.released.wait(60)
        return "at last"

    def test(self, name: BatchName, empty: ExportBatch) -> None: ...

    def close(self) -> None: ...


def test_one_that_hangs_delays_neither_the_steward_nor_others(
    exports: ChoreThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    Hanging.released.clear()
    real = exporter.open_writer

    def open_writer(target: Writer, node: Settings) -> Writer:
        slow = getattr(target, "url", "") == "slow"
        return Hanging() if slow else real(target, node)  # type: ignore[arg-type]

    monkeypatch.setattr(exporter, "open_writer", open_writer)
    fill(made_task(), 2)
    target = {"kind": "files", "max_minutes": 0}
    add({**target, "url": "slow"}, name="slow")
    add({**target, "url": "fast"}, name="fast")
    exports.tick()  # returns at once
    until(lambda: Export.objects.get(name="fast").rows == 6, "the other one waits")
    assert Export.objects.get(name="slow").rows == 0
    exports.tick()
    Hanging.released.set()
    until(lambda: Export.objects.get(name="slow").rows == 6, "it does not go on")


def test_one_that_is_paused_has_no_thread(exports: ChoreThreads) -> None:
    add({"kind": "files", "url": "a"}, name="a")
    add({"kind": "files", "url": "b"}, name="b")
    exports.tick()
    until(lambda: sorted(alive()) == ["export a", "export b"], "no threads")
    Export.objects.filter(name="a").update(paused=True)
    exports.tick()
    until(lambda: alive() == ["export b"], "it goes on")
    Export.objects.filter(name="a").update(paused=False)
    exports.tick()
    until(lambda: sorted(alive()) == ["export a", "export b"], "it does not come back")


def test_the_steward_carries_them_on_and_stops(exports: ChoreThreads) -> None:
    exports.tick()
    assert alive() == []
    fill(made_task(), 1)
    add({"kind": "files", "url": "a", "max_minutes": 0}, name="a")
    exports.tick()
    until(lambda: Export.objects.get().rows == 3, "nothing is exported")
    exports.stop()
    until(lambda: not alive(), "the thread goes on")
