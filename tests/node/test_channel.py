"""Channels: whole messages, in order, however the socket cuts them."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import msgspec
import pytest

from crawlframe.node.channel import Channel, ChannelClosed, pair

Text = Channel[str, str]
DECODER = msgspec.msgpack.Decoder(str)


@pytest.fixture
def ends() -> Iterator[tuple[Text, Text]]:
    left, right = pair(DECODER, DECODER)
    with closing(left), closing(right):
        yield left, right


def test_messages_arrive_whole_and_in_order(ends: tuple[Text, Text]) -> None:
    left, right = ends
    left.send("run")
    left.send("retire")
    assert right.receive() == ["run", "retire"]
    assert right.receive() == []


def test_what_the_socket_does_not_take_is_kept(ends: tuple[Text, Text]) -> None:
    left, right = ends
    big = "x" * (8 << 20)
    left.send(big)
    left.send("small")
    assert left.pending
    got: list[str] = []
    while len(got) < 2:
        left.flush()
        got += right.receive()
        assert right.idle == (len(got) == 2)
    assert got == [big, "small"]
    assert not left.pending


def test_a_message_is_sent_as_a_whole_to_a_reader_that_is_late(ends: tuple[Text, Text]) -> None:
    left, right = ends
    big = "x" * (8 << 20)
    sender = threading.Thread(target=left.send_all, args=(big,))
    sender.start()
    sender.join(0.05)
    assert sender.is_alive()  # it waits
    got: list[str] = []
    while not got:
        got += right.receive()
    sender.join(10)
    assert not sender.is_alive()
    assert got == [big]
    assert not left.pending


def test_the_end_is_reported_after_the_last_message(ends: tuple[Text, Text]) -> None:
    left, right = ends
    left.send("last words")
    left.close()
    assert right.receive() == ["last words"]
    with pytest.raises(ChannelClosed):
        right.receive()


def test_sending_to_a_closed_end(ends: tuple[Text, Text]) -> None:
    left, right = ends
    right.close()
    with pytest.raises(ChannelClosed):
        left.send("anybody there?")


def test_what_is_no_message_is_an_error_between_equals() -> None:
    left, right = pair(DECODER, msgspec.msgpack.Decoder(int))
    with closing(left), closing(right):
        left.send("not a number")  # type: ignore[arg-type]
        with pytest.raises(msgspec.ValidationError):
            right.receive()


def test_what_is_no_message_of_this_version_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    near, far = socket.socketpair()
    left = Channel[object, str](near, DECODER)
    right = Channel[str, int](far, msgspec.msgpack.Decoder(int), tolerant=True)
    with closing(left), closing(right), caplog.at_level(logging.INFO):
        for message in (1, "two", 3):
            left.send(message)
        assert right.receive() == [1, 3]
    assert "of another version is ignored" in caplog.text
