"""Records as Redis keeps them: without the host, which their lane names, and complete when read."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crawlframe.frontier import NodeInfo
from crawlframe.frontier.client.keys import KEYS
from crawlframe.frontier.client.records import groups, whole
from crawlframe.request.request import Admission, Request, make_rid, root_admission
from tests.frontier.bench import Bench

RID = make_rid(1, b"one")


def kept(record: bytes, host: str) -> bytes:
    [[_, _, [_, _, _, kept]]] = groups([Admission(RID, 5, host, 0, record)])
    assert isinstance(kept, bytes)
    return kept


@given(
    st.sampled_from([b"", b"\x94\x01\xd9Lhttps", b"\x95\x01\xd9\x00http", b"\x96\x01\xd9Lhttps"])
    | st.binary(max_size=9),
    st.binary(max_size=9),
    st.sampled_from(["a.example", "a.example:81", "", "/7", "ü"]),
)
@example(b"\x00", b"", "a.example")
@example(b"\x04", b"", "a.example")
@example(b"\xff", b"", "a.example")
@example(b"\xff\xff", b"", "a.example")
@example(b"\x94\x01\xd9https", b"", "a.example")
def test_any_record_comes_back(front: bytes, rest: bytes, host: str) -> None:
    name = b"://" + host.encode()
    for record in (front + rest, front + name + rest, front + name + rest + name):
        assert whole(kept(record, host), host) == record


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("options", [{}, {"priority": 5, "meta": {"a": "https://a.example/"}}])
def test_the_host_is_kept_once(scheme: str, options: dict[str, Any]) -> None:
    request = Request(f"{scheme}://a.example:81/{'page' * 9}?u=https://a.example:81/", **options)
    record = request.encode()
    short = kept(record, request.host)
    assert len(short) == len(record) - len(f"{scheme}://a.example:81") - 2
    again = Request.decode(whole(short, request.host))
    assert (again.url, again.priority, again.meta) == (request.url, request.priority, request.meta)


@pytest.mark.parametrize("length", [0, 5, 11, 12, 13, 230, 235, 236, 237, 300, 70_000])
def test_a_url_of_any_length(length: int) -> None:
    request = Request(f"https://a.example/{'x' * length}")
    assert whole(kept(request.encode(), request.host), request.host) == request.encode()


def test_a_host_in_other_letters_is_kept_as_it_is() -> None:
    record = Request("https://user:word@a.example/page").encode()
    assert kept(record, "a.example") == record
    root = root_admission(7)
    assert kept(root.record, root.host) == root.record


def test_older_records_are_read(bench: Bench) -> None:
    """They are in Redis with their host."""
    bench.open(old := bench.request("old"), bench.request("new"))
    record = Request("https://a.example/old").encode()
    bench.redis.hset(bench.key("REQ"), old.rid, record)
    assert {claimed.record for claimed in bench.claim()} == {record, b"new"}


def test_neighbours_share_what_is_equal(bench: Bench) -> None:
    asked: list[dict[str, Any]] = [
        {},
        {},
        {"depth": 1},
        {"host": "b.example", "depth": 1},
        {"host": "b.example", "delay": 9},
        {},
    ]
    admissions = [bench.request(str(i), **options) for i, options in enumerate(asked)]
    found = groups(admissions)
    assert [len(flat) // 4 for _, _, flat in found] == [2, 1, 1, 1, 1]
    assert [rid for _, _, flat in found for rid in flat[::4]] == [a.rid for a in admissions]
    assert groups([]) == []
    bench.open(*admissions)
    places = {request.rid: (request.host, request.record) for request in bench.claim()}
    bench.after(bench.now() + 9)
    places |= {request.rid: (request.host, request.record) for request in bench.claim()}
    assert places == {a.rid: (a.host, a.record) for a in admissions}


STORED = {
    "TRIED_VERSIONS": "trails",
    "TASKS_BY_TRIED": "trail:.",
    "PARKED_BY_TRIED": "stranded:.",
    "STARVED": "hungry",
    "CALL_LOG": "pulse:.",
}


def test_keys() -> None:
    assert {name: KEYS[name][0] for name in STORED} == STORED


def test_the_health_of_a_node() -> None:
    node = NodeInfo(1, "alpha", "host", "place", 2, 3.0, workers=4, lease_left=5.0)
    node = msgspec.structs.replace(node, health=msgspec.structs.replace(node.health, deaths=6))
    row = msgspec.json.encode(node)
    assert json.loads(row)["fitness"]["deaths"] == 6
    assert msgspec.json.decode(row, type=NodeInfo) == node
