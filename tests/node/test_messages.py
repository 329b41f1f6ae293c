"""Messages between processes of two versions: the bytes of each stay the same, and additions of
another version are no problem."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import closing
from typing import Any, get_args

import msgpack
import msgspec
import pytest

from crawlframe.frontier.cluster.nodes import CodeState
from crawlframe.frontier.cluster.rollouts import Rollout
from crawlframe.node import supervisor_messages
from crawlframe.node.channel import Channel
from crawlframe.node.supervisor import reexec
from crawlframe.node.supervisor_messages import Message

CODE = CodeState(
    version="1", changed_at=5.0, follows="origin/main", follow_every=10.0, pulled="ab", rollout=7
)
CODE_FIELDS = {
    "version": "1", "state": "loading", "candidate": "", "problem": "", "changed_at": 5.0,
    "seconds": 0.0, "reloads": 0, "follows": "origin/main", "follow_every": 10.0, "pulled": "ab",
    "pull_problem": "", "rollout": 7, "asks": False, "refused_by": "",
}  # fmt: skip
LOADED = supervisor_messages.LoadedCode("digest", "revision", "/spiders", ["/a"], ["shops.b"])
LOADED_FIELDS = {
    "digest": "digest", "revision": "revision", "tree": "/spiders", "files": ["/a"],
    "broken": ["shops.b"],
}  # fmt: skip
INITIAL = supervisor_messages.InitialState(
    [3], ["shops.b"], 1.5, "origin/main", "ab", "dirty", 6, 7, 10.0
)
INITIAL_FIELDS = {
    "beside": [3], "broken": ["shops.b"], "changed_at": 1.5, "follows": "origin/main",
    "pulled": "ab", "pull_problem": "dirty", "answered": 6, "rollout": 7,
    "follow_every": 10.0,
}  # fmt: skip
ROLLOUT = Rollout("abc", "main", ("one",), True, "before", 9)
ROLLOUT_FIELDS = {
    "revision": "abc", "branch": "main", "nodes": ["one"], "back": True, "before": "before",
    "id": 9,
}  # fmt: skip

# The messages as sent. Versions that run somewhere send and expect just these: change nothing here,
# and add new fields at the end of a message, or new messages.
TO_MASTER: list[tuple[Message, list[Any]]] = [
    (supervisor_messages.HelloReply(INITIAL), ["welcome", INITIAL_FIELDS]),
    (supervisor_messages.Preload(1.5), ["prepare", 1.5]),
    (supervisor_messages.DropPreload(), ["forget"]),
    (supervisor_messages.Reload(1.5, "digest", "revision"), ["ask", 1.5, "digest", "revision"]),
    (supervisor_messages.RefuseVersion("2", "it died"), ["refuse", "2", "it died"]),
    (supervisor_messages.CheckoutPulled("ab", "dirty", 7), ["pulled", "ab", "dirty", 7]),
    (supervisor_messages.SendCodeReport(), ["report"]),
    (supervisor_messages.ReplayDead(), ["replay"]),
    (supervisor_messages.HandOver(), ["hand over"]),
]
FROM_MASTER: list[tuple[Message, list[Any]]] = [
    (supervisor_messages.Hello(["/a"]), ["hello", ["/a"]]),
    (supervisor_messages.CodeReport(CODE, LOADED), ["code", CODE_FIELDS, LOADED_FIELDS]),
    (supervisor_messages.CodeReport(CODE, None), ["code", CODE_FIELDS, None]),
    (supervisor_messages.StillLoading(), ["progress"]),
    (supervisor_messages.Serving(), ["serving"]),
    (supervisor_messages.Migrations("0042"), ["tables", "0042"]),
    (supervisor_messages.RolloutAnnounced(ROLLOUT), ["rollout", ROLLOUT_FIELDS]),
]


class Line:
    """The connection between a supervisor and its master, with a plain socket as one of them."""

    def __init__(self, near: Channel[Any, Any], far: socket.socket) -> None:
        self.near, self._far = near, far

    def sent(self, message: Message) -> list[Any]:
        """The form of a message on the connection."""
        self.near.send(message)
        size = struct.unpack("!I", self._far.recv(4))[0]
        fields: list[Any] = msgpack.unpackb(self._far.recv(size))
        return fields

    def heard(self, *fields: list[Any]) -> list[Message]:
        """The messages that these fields are for the receiver."""
        for one in fields:
            body = msgpack.packb(one)
            self._far.sendall(struct.pack("!I", len(body)) + body)
        return self.near.receive()


@pytest.fixture
def master() -> Iterator[Line]:
    """A master's end."""
    near, far = socket.socketpair()
    with closing(near), closing(far):
        yield Line(supervisor_messages.from_master(near), far)


@pytest.fixture
def supervisor() -> Iterator[Line]:
    """A supervisor's end."""
    near, far = socket.socketpair()
    with closing(near), closing(far):
        yield Line(supervisor_messages.to_master(near), far)


@pytest.mark.parametrize(("message", "fields"), TO_MASTER, ids=lambda one: str(one)[:20])
def test_to_a_master(supervisor: Line, master: Line, message: Message, fields: list[Any]) -> None:
    assert supervisor.sent(message) == fields
    assert master.heard(fields) == [message]


@pytest.mark.parametrize(("message", "fields"), FROM_MASTER, ids=lambda one: str(one)[:20])
def test_from_a_master(supervisor: Line, master: Line, message: Message, fields: list[Any]) -> None:
    assert master.sent(message) == fields
    assert supervisor.heard(fields) == [message]


def test_none_is_left_out_here() -> None:
    assert {type(message) for message, _ in TO_MASTER} == set(
        get_args(supervisor_messages.ToMaster)
    )
    assert {type(message) for message, _ in FROM_MASTER} == set(
        get_args(supervisor_messages.FromMaster)
    )


@pytest.mark.parametrize(
    ("message", "fields"), TO_MASTER + FROM_MASTER, ids=lambda one: str(one)[:20]
)
def test_a_later_version_may_add_fields(
    supervisor: Line, master: Line, message: Message, fields: list[Any]
) -> None:
    longer = [{**field, "later": [1]} if isinstance(field, dict) else field for field in fields]
    line = master if isinstance(message, supervisor_messages.ToMaster) else supervisor
    assert line.heard([*longer, "later"]) == [message]


def test_an_earlier_version_may_lack_fields_of_the_state(supervisor: Line) -> None:
    fields = {name: CODE_FIELDS[name] for name in ("version", "state")}
    assert supervisor.heard(["code", fields, None]) == [
        supervisor_messages.CodeReport(CodeState(version="1"), None)
    ]


def test_messages_that_are_not_known_are_left_out(supervisor: Line, master: Line) -> None:
    for line, known in (
        (supervisor, supervisor_messages.Serving()),
        (master, supervisor_messages.DropPreload()),
    ):
        later: list[list[Any]] = [["later"], ["later", {"a": 1}], msgspec.to_builtins(known), []]
        assert line.heard(*later) == [known]


def test_what_a_supervisor_leaves_to_the_one_that_it_becomes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    master = supervisor_messages.AdoptedMaster(1, 2, "engine", ["/a"])
    left = supervisor_messages.Inheritance(("ab", "dirty", 7), 8, master)
    text = '{"pulled":["ab","dirty",7],"rollout":8,"ward":{"pid":1,"fd":2,"engine":"engine"'
    text += ',"framework":["/a"]}}'
    assert msgspec.json.encode(left).decode() == text
    later = text.replace('"fd"', '"later":1,"fd"').replace('"rollout"', '"later":[],"rollout"')
    for given in (text, later):
        monkeypatch.setenv("SUPERVISOR_ADOPTS", given)
        assert reexec.is_reexecuted()
        assert reexec.inherited_state() == left
        assert "SUPERVISOR_ADOPTS" not in os.environ
    assert reexec.inherited_state() is None
