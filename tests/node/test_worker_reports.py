"""Reports of a worker to its master, and their times."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from crawlframe.conf import Settings
from crawlframe.frontier.client.records import NO_SIGNAL, Claimed
from crawlframe.markup import parsers
from crawlframe.node.messages import WorkerReport
from crawlframe.node.worker.worker import Worker

ONE, OTHER = (Claimed(rid, 1, "a.example", 0, 0, b"", claim=7) for rid in (b"one", b"other"))


class Line:
    """The end of a channel that keeps its messages."""

    pending = False

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, message: Any) -> None:
        self.sent.append(message)


@pytest.mark.parametrize("busy", [False, True])
def test_a_worker_that_is_not_busy_reports_at_once_what_it_sent(busy: bool) -> None:
    async def main() -> list[WorkerReport]:
        line: Any = Line()
        nothing: Any = None
        worker = Worker(Settings(), nothing, nothing, "", 1, line, lambda slot, rid: None)
        worker._loop = asyncio.get_running_loop()
        worker._committer = SimpleNamespace(held=0)  # type: ignore[assignment]
        worker._busy = busy
        worker._on_fetched(OTHER, NO_SIGNAL)  # that can wait for others
        await asyncio.sleep(0)
        assert line.sent == []
        worker._on_sent(ONE, 0.0)
        await asyncio.sleep(0)
        return list(line.sent)

    reports = asyncio.run(main())
    assert [[sent[:2] for sent in one.sent] for one in reports] == [[(b"one", 7)]] * (not busy)
    assert [[over[:2] for over in one.fetched] for one in reports] == [[(b"other", 7)]] * (not busy)


def test_a_worker_looks_at_its_memory_while_a_parser_is_stuck(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Ended(Exception):
        pass

    def end(status: int) -> None:
        raise Ended

    async def main() -> None:
        nothing: Any = None
        settings = Settings(max_memory=1)
        worker = Worker(settings, nothing, nothing, "", 1, nothing, lambda slot, rid: None)
        worker._loop = asyncio.get_running_loop()
        worker._committer = SimpleNamespace(held=0)  # type: ignore[assignment]
        watch = asyncio.create_task(worker._watch_parsers())
        await asyncio.sleep(0)
        monkeypatch.setattr(parsers, "stuck", lambda: False)  # its parser has ended by now
        parsers.on_refusal()
        await asyncio.sleep(0.01)
        assert not watch.done()
        monkeypatch.setattr(parsers, "stuck", lambda: True)
        await asyncio.to_thread(parsers.on_refusal)
        await watch

    monkeypatch.setattr(parsers, "on_refusal", parsers.on_refusal)  # it is put back
    monkeypatch.setattr("os._exit", end)
    with pytest.raises(Ended):
        asyncio.run(main())
