"""A request of a host with a delay that is not sent spends none of the host's time."""

from __future__ import annotations

from crawlframe.frontier.client.records import SENT, UNSENT, FreedSlot, Signal, TaskLimits
from tests.frontier.bench import Bench

LIMITS = TaskLimits(delay=60_000, concurrency=5)


def test_the_next_request_of_the_host_may_go_at_once(bench: Bench) -> None:
    bench.frontier.open_task(1, LIMITS, bench.requests(5))
    for _ in range(3):
        (one,) = bench.claim_unsent()
        assert bench.claim_unsent() == []
        bench.sequences[1] += 1
        told = FreedSlot(one.rid, one.host, one.claim, Signal(SENT, UNSENT))
        bench.frontier.claim(1, bench.sequences[1], 0, [told])
    (last,) = bench.claim_unsent()
    bench.sequences[1] += 1
    told = FreedSlot(last.rid, last.host, last.claim, Signal(SENT, 0.0))
    bench.frontier.claim(1, bench.sequences[1], 0, [told])
    assert bench.claim_unsent() == []  # that one was sent
