"""The master's end of the connection to the supervisor."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
from redis import Redis

from crawlframe.errors import ConfigError
from crawlframe.frontier import Frontier
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.frontier.cluster.rollouts import Rollout
from crawlframe.node.master import supervisor_link
from crawlframe.node.master.supervisor_link import PROGRESS, SupervisorLink
from crawlframe.node.supervisor_messages import (
    HandOver,
    Hello,
    HelloReply,
    InitialState,
    ReplayDead,
    RolloutAnnounced,
    StillLoading,
    ToMasterLine,
    from_master,
    to_master,
)

INITIAL = InitialState([3], None, 1.5, "origin/main", "ab", "", 0, 0)
Ends = tuple[SupervisorLink, ToMasterLine]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """The master's end, and the supervisor's."""
    near, far = socket.socketpair()
    with closing(near), closing(far):
        yield SupervisorLink(from_master(near)), to_master(far)


def test_a_master_is_greeted(ends: Ends) -> None:
    master, supervisor = ends
    supervisor.send(ReplayDead())
    supervisor.send(HelloReply(INITIAL))
    supervisor.send(HandOver())
    assert master.shake_hands(["/a"]) == INITIAL
    assert master.beside == (3,)
    assert supervisor.receive() == [Hello(["/a"])]
    assert master.receive() == [ReplayDead(), HandOver()]  # sent with the welcome
    assert master.receive() == []


def test_a_supervisor_that_says_nothing(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_link, "GREETING", 0.0)
    with pytest.raises(ConfigError, match="no supervisor answers"):
        ends[0].shake_hands(["/a"])


def test_a_supervisor_that_ends(ends: Ends) -> None:
    master, supervisor = ends
    supervisor.close()
    with pytest.raises(ConfigError, match="ended before this master began"):
        master.shake_hands(["/a"])
    assert master.receive() == []
    assert master.gone


def test_signs_of_life_once_a_second(ends: Ends) -> None:
    master, supervisor = ends
    for seconds in (0.0, 0.9 * PROGRESS, PROGRESS, 1.5 * PROGRESS):
        master.send_progress(1000.0 + seconds)
    assert supervisor.receive() == [StillLoading(), StillLoading()]


def test_an_announcement_is_passed_on_once(ends: Ends, redis_client: Redis) -> None:
    master, supervisor = ends
    frontier = Frontier(PartitionedStore(redis_client))
    supervisor.send(HelloReply(INITIAL))
    master.shake_hands(["/a"])
    supervisor.receive()
    rollout = frontier.rollouts.announce(Rollout("abcdefabcdef", "main"))
    frontier.rollouts.announce(Rollout("123456123456", "other"))
    for _ in range(2):
        master.forward_rollout(frontier, "one")
    assert supervisor.receive() == [RolloutAnnounced(rollout)]
