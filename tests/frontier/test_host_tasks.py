"""Tasks with ready requests of a host."""

from __future__ import annotations

from tests.frontier.bench import Bench


def test_ready_requests_by_task(bench: Bench) -> None:
    bench.open(*bench.requests(3), bench.request("other", "b.example"))
    bench.open(bench.request("x", task=2), task=2)
    assert bench.frontier.hosts.tasks("a.example") == {1: 3, 2: 1}
    assert bench.frontier.hosts.tasks("b.example") == {1: 1}
    assert bench.frontier.hosts.tasks("nothing.example") == {}
    assert len(bench.frontier.hosts.tasks("a.example", limit=1)) == 1
    bench.frontier.pause(1)
    bench.claim_all()
    assert bench.frontier.hosts.tasks("a.example") == {}
