"""The check by the commit thread whether Redis still knows its calls, with a real frontier."""

from __future__ import annotations

import time
from typing import Any

from redis import Redis

from crawlframe.conf import Settings
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.node.worker.commit.committer import Committer
from crawlframe.run.link_filters import Sieve
from crawlframe.run.participant import Participants
from crawlservice.ledger.store import DjangoLedger
from tests.frontier.bench import Bench


def fail(*told: object) -> None:
    raise AssertionError(told)


def scripts_run(redis: Any) -> int:
    calls: int = redis.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0)
    return calls


def test_it_does_not_pile_up(redis_client: Redis) -> None:
    """Otherwise results would wait for all the checks from the time when Redis was unreachable."""
    frontier, ledger = Bench(redis_client, store=PartitionedStore).frontier, DjangoLedger()
    frontier.eras.confirm()  # the script is known from here on
    committer = Committer(Settings(), 1, frontier, ledger, Sieve(), Participants(()), fail, fail)
    before = scripts_run(redis_client)
    for _ in range(100):
        committer.confirm()
    committer.start()
    deadline = time.monotonic() + 10
    while committer.is_alive() and time.monotonic() < deadline:
        if scripts_run(redis_client) > before:
            committer.confirm()  # it is asked the next time too
            committer.close()
            committer.join()
    assert scripts_run(redis_client) == before + 2
