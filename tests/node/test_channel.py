"""Channels: whole messages, in order, however the socket cuts them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crawlframe.node.channel import Channel, ChannelClosed

Pair = tuple[Channel, Channel]


@pytest.fixture
def pair() -> Iterator[Pair]:
    left, right = Channel.pair()
    yield left, right
    left.close()
    right.close()


def test_messages_arrive_whole_and_in_order(pair: Pair) -> None:
    left, right = pair
    left.send("run", [b"\0" * 16, 7], {3: ["running", 0]})
    left.send("retire")
    assert right.receive() == [["run", [b"\0" * 16, 7], {3: ["running", 0]}], ["retire"]]
    assert right.receive() == []


def test_what_the_socket_does_not_take_is_kept(pair: Pair) -> None:
    left, right = pair
    big = b"x" * (8 << 20)
    left.send("big", big)
    left.send("small")
    assert left.pending
    got: list[list[object]] = []
    while len(got) < 2:
        left.flush()
        got += right.receive()
    assert got == [["big", big], ["small"]]
    assert not left.pending


def test_the_end_is_told_after_the_last_message(pair: Pair) -> None:
    left, right = pair
    left.send("last words")
    left.close()
    assert right.receive() == [["last words"]]
    with pytest.raises(ChannelClosed):
        right.receive()


def test_sending_to_a_closed_end(pair: Pair) -> None:
    left, right = pair
    right.close()
    with pytest.raises(ChannelClosed):
        left.send("anybody there?")
