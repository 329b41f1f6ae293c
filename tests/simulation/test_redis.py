"""Tests of the store that need no server: time, copies, faults, clients and scripts."""

from __future__ import annotations

from random import Random
from typing import Any

import msgpack
import pytest
from redis.exceptions import NoScriptError, OutOfMemoryError

from tests.simulation.redis.client import Link, client
from tests.simulation.redis.engine import source_of_globals
from tests.simulation.redis.store import Store
from tests.simulation.redis.values import ReplyError


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Store:
    return Store(clock)


@pytest.fixture
def redis(store: Store) -> Any:
    return client(Link(store))


# -- time -----------------------------------------------------------------------------------------


def test_a_key_expires_after_its_time(redis: Any, clock: Clock) -> None:
    redis.set("key", 1, px=1500)
    clock.now += 1.5
    assert redis.pttl("key") == 0
    clock.now += 0.001
    assert redis.get("key") is None
    assert redis.pttl("key") == -2


def test_the_latest_expiry_of_a_key_counts(redis: Any, clock: Clock) -> None:
    for name in ("replaced", "kept", "persistent", "later", "again"):
        redis.set(name, 1, ex=10)
    redis.set("replaced", 2)
    redis.incr("kept")
    redis.persist("persistent")
    redis.pexpireat("later", round(1000 * clock.now) + 30_000)
    redis.delete("again")
    redis.set("again", 1)
    clock.now += 20
    assert {*redis.scan_iter()} == {b"replaced", b"persistent", b"later", b"again"}
    assert redis.pexpireat("again", 1) == 1
    assert not redis.exists("again")


def test_no_key_expires_in_a_script(store: Store, clock: Clock) -> None:
    store.execute(("SET", "key", "1", "PX", 1000))
    ticks = iter([clock.now + 1, clock.now + 10])
    store.clock = lambda: next(ticks)
    assert store.execute(("EVAL", "redis.call('TIME') return redis.call('GET', 'key')", 0)) == b"1"


# -- copies ---------------------------------------------------------------------------------------


def test_a_copy_is_not_changed_by_later_commands(store: Store, redis: Any, clock: Clock) -> None:
    def fill(value: int) -> None:
        redis.set("string", value, ex=100)
        redis.hset("hash", mapping={"a": value, str(value): 1})
        redis.sadd("set", value)
        redis.rpush("list", value)
        redis.zadd("zset", {"a": value, str(value): 1})

    def content() -> Any:
        return (
            redis.get("string"), redis.hgetall("hash"), redis.smembers("set"), redis.pttl("string"),
            redis.lrange("list", 0, -1), redis.zrange("zset", 0, -1, withscores=True),
        )  # fmt: skip

    fill(1)
    first, was = store.snapshot(), content()
    clock.now += 50
    fill(2)
    second, then = store.snapshot(), content()
    redis.delete("hash")
    redis.zremrangebyscore("zset", 0, 10)
    for _ in range(2):
        store.restore(first)
        clock.now -= 50
        assert content() == was
        fill(3)
        store.restore(second)
        clock.now += 50
        assert content() == then
    store.flush()
    assert [*redis.scan_iter()] == []


def test_a_scan_finds_what_stays(redis: Any) -> None:
    stays = {f"stays {i}" for i in range(300)}
    for name in stays | {f"goes {i}" for i in range(300)}:
        redis.set(name, 1)
    found, cursor, number = set(), 0, 0
    while True:
        cursor, names = redis.scan(cursor, count=20)
        assert len(names) <= 20
        found |= {name.decode() for name in names}
        if not cursor:
            break
        redis.delete(f"goes {number}")
        redis.set(f"comes {number}", 1)
        number += 1
    assert stays <= found
    assert number > 10


# -- faults ---------------------------------------------------------------------------------------


def test_a_full_store_refuses_to_grow(store: Store, redis: Any) -> None:
    redis.hset("hash", mapping={"a": "1" * 1000, "b": 2})
    assert 1000 < redis.info("memory")["used_memory"] < 2000
    store.full = True
    with pytest.raises(OutOfMemoryError):
        redis.set("key", 1)
    with pytest.raises(OutOfMemoryError):
        redis.eval("return redis.call('SET', 'key', 1)", 0)
    # A script that has written is not stopped in the middle.
    redis.eval("redis.call('HDEL', 'hash', 'b') redis.call('SET', 'key', 1)", 0)
    store.full = False
    assert redis.set("key", 2)


def test_a_restart_forgets_scripts(store: Store, redis: Any) -> None:
    sha = redis.script_load("return ARGV[1]")
    assert redis.evalsha(sha, 0, "x") == b"x"
    was = redis.info("server")["run_id"]
    store.restart()
    assert redis.info("server")["run_id"] != was
    assert redis.script_exists(sha) == [False]
    with pytest.raises(NoScriptError):
        redis.evalsha(sha, 0, "x")


# -- clients and scripts --------------------------------------------------------------------------


def test_replies_of_scripts(redis: Any) -> None:
    redis.hset("hash", mapping={"a": 1})
    for text, reply in {
        "return 3.9": 3, "return -3.9": -3, "return true": 1, "return false": None, "return": None,
        "return {1, 'x', {2, {}}, nil, 3}": [1, b"x", [2, []]], "return {ok = 'fine'}": b"fine",
        "return {KEYS[2], ARGV[1], #KEYS, #ARGV}": [b"k2", b"v", 2, 1],
        "return redis.call('HMGET', 'hash', 'a', 'b')": [b"1", None],
        "return {redis.call('SET', 'key', 1.5).ok, redis.call('get', 'key')}": [b"OK", b"1.5"],
        "return redis.call('GET', 'none') == false": 1,
        "return redis.call('TYPE', 'hash').ok": b"hash",
        "return redis.call('LPOP', 'none', 2) == false": 1,
        "return redis.call('HSCAN', 'hash', 0)": [b"0", [b"a", b"1"]],
        "return redis.pcall('GET', 'hash').err:sub(1, 9)": b"WRONGTYPE",
        "return redis.sha1hex('')": b"da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "local list = {} for i = 1, 10000 do list[i] = i end return list": [*range(1, 10001)],
    }.items():  # fmt: skip
        assert redis.eval(text, 2, "k1", "k2", "v") == reply, text
    redis.sadd("set", *range(10_000))
    assert redis.eval("return #redis.call('SMEMBERS', 'set')", 0) == 10_000


def test_errors_of_scripts(store: Store) -> None:
    for text, words in {
        "return redis.error_reply('FENCED x')": "^FENCED x$",
        "return redis.call('GET')": "^ERR Wrong number of args",
        "return redis.call('HGET', 'key', 'f')": "^WRONGTYPE .* script: ",
        "return redis.call('GET', {})": "^ERR Lua redis lib command arguments",
        "return redis.call('NONE')": "^ERR Unknown Redis command",
        "return nothing.at": "^ERR ",
        "return (": "^ERR Error compiling script",
    }.items():
        store.execute(("SET", "key", 1))
        with pytest.raises(ReplyError, match=words):
            store.execute(("EVAL", text, 0))


def test_numbers_are_packed_as_by_msgpack(redis: Any) -> None:
    random = Random(1)
    numbers = [sign * (2**bits + by) for bits in range(53) for by in (-1, 0, 1) for sign in (1, -1)]
    values = [*numbers, 1.5, 0.1, -1e300, 3e38, *(random.random() for _ in range(50))]
    values += ["", "x" * 31, "x" * 32, "x" * 70000, [], [1, [2, ["x"]]], [0] * 15, [0] * 16]
    script = "return cmsgpack.pack(cmsgpack.unpack(ARGV[1]))"
    for value in values:
        packed = redis.eval(script, 0, msgpack.packb(value))
        assert msgpack.unpackb(packed) == value
        assert len(packed) <= len(msgpack.packb(value))
    for broken in ("", "\x92\x01", "\xc1"):
        redis.eval("return {pcall(cmsgpack.unpack, ARGV[1])}", 0, broken.encode("latin-1"))


def test_each_run_of_a_script_has_fresh_locals() -> None:
    source = """
local a, b = 1  -- two
local count
local function grow() count = (count or 0) + 1 return count end
do
local twice = 1
end
do
local twice
end
local again = grow()
return {again, a}"""
    text = source_of_globals(source).decode()
    assert "\na, b = 1" in text
    assert "\ncount = nil " in text
    assert "\nfunction grow()" in text
    assert text.count("local twice") == 2
    store = Store(Clock())
    assert [store.execute(("EVAL", source, 0)) for _ in range(2)] == [[1, 1], [1, 1]]
