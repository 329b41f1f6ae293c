"""The store of the simulation beside a real server: the same commands, and the same calls of the
frontier, get the same replies and leave the same keys."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from redis import Redis

from tests.frontier.test_machine import Machine
from tests.simulation.redis.client import client
from tests.simulation.redis.mirror import Mirror
from tests.simulation.redis.store import Store

COMMANDS = 4000  # for each seed

# k key, f field or member, v value, n integer, c count, s score, b bound, i index, e time (s)
FORMS = """
DEL k|DEL k k|UNLINK k|EXISTS k|EXISTS k k k|TYPE k|PERSIST k|EXPIRE k e|PEXPIRE k e|PEXPIREAT k n
GET k|SET k v|SET k v NX|SET k v XX|SET k v EX e|SET k v PX e KEEPTTL|SET k v NX XX|SET k n|INCR k
INCRBY k n|HGET k f|HMGET k f f f|HGETALL k|HKEYS k|HLEN k|HSTRLEN k f
HEXISTS k f|HSET k f v|HSET k f v f v f n|HSET k f|HSETNX k f v|HDEL k f|HDEL k f f f|HINCRBY k f n
SADD k f|SADD k f f f|SREM k f|SREM k f f f|SISMEMBER k f|SMISMEMBER k f f|SCARD k|SMEMBERS k
RPUSH k v|RPUSH k v v v|LPUSH k v v|LPOP k|LPOP k c|LLEN k|LRANGE k i i
ZADD k s f|ZADD k s f s f s f|ZADD k NX s f|ZADD k XX CH s f|ZADD k GT CH s f s f|ZADD k LT s f
ZADD k NX GT s f|ZADD k s|ZREM k f|ZREM k f f f|ZSCORE k f|ZMSCORE k f f|ZCARD k|ZCOUNT k b b
ZRANGE k i i|ZRANGE k i i WITHSCORES|ZRANGEBYSCORE k b b|ZRANGEBYSCORE k b b WITHSCORES LIMIT i i
ZRANGEBYSCORE k b b LIMIT c c|ZREMRANGEBYSCORE k b b|ZPOPMIN k|ZPOPMIN k c|ZUNIONSTORE k 2 k k
ZUNIONSTORE k 2 k k AGGREGATE MIN|ZUNIONSTORE k 1 k AGGREGATE MAX|ZUNIONSTORE k 0 k|KEYS *|KEYS k
HGET k|GET|NONE k
"""
WORDS: dict[str, list[Any]] = {
    "k": ["string", "hash", "set", "list", "zset", "a", "b"],
    "f": [b"a", b"b", b"c", b"\0\xff", b"", 17],
    "v": [b"", b"value", b"\0\r\n\xff", 12, -3, 1.5],
    "n": [0, 1, -1, 7, 2**63 - 1, -(2**63), 2**63, b"x", b"01", b" 1", 10**15],
    "c": [0, 1, 2, 5, -1, b"x"],
    "s": [0, 1, -1.5, 1e15, 8640000000000000, 1e300, 0.1, 1 / 3, b"inf", b"-inf", b"nan", b"x"],
    "b": [b"-inf", b"+inf", b"(1", b"1", 0, b"(0.1", 1e15, b"(inf", b"x", b"8640000000000000"],
    "i": [0, 1, -1, 2, -2, 5, -9, b"x"],
    "e": [-1, 0, 10**6, 10**9, b"x"],
}


@pytest.fixture
def mirror(redis_client: Redis) -> Iterator[Mirror]:
    redis_client.script_flush()  # of other tests: these read the server's own time
    with Mirror(Store(time.time), redis_client) as mirror:
        yield mirror
        mirror.compare()


@pytest.mark.parametrize("seed", range(3))
def test_commands_get_the_same_replies(mirror: Mirror, seed: int) -> None:
    random = Random(seed)
    forms = [form.split() for line in FORMS.split("\n") for form in line.split("|") if form]
    for _ in range(COMMANDS):
        name, *words = random.choice(forms)
        mirror.deliver((name, *(random.choice(WORDS.get(word, [word])) for word in words)))


def test_lua_writes_the_same_numbers(mirror: Mirror) -> None:
    random = Random(0)
    words = ["0", "1e15", "1e16", "0x10", " 7 ", "1e", "1_0", "", "9" * 30]
    words += [repr(random.uniform(-1, 1) * 10 ** random.randrange(-8, 13)) for _ in range(300)]
    words += [str(random.randrange(-(2**53), 2**53) >> random.randrange(53)) for _ in range(300)]
    source = """
      local n = tonumber(ARGV[1])
      if not n then return 'none' end
      redis.call('ZADD', 'scores', n, 'member')
      redis.call('HSET', 'numbers', ARGV[1], n)
      return {tostring(n), n .. '', string.format('%.0f %.2f %.3f %.17g %g', n, n, n, n, n),
        math.floor(n) .. '', n % 7 .. '', string.format('%d', n % 1000000), n, redis.sha1hex(n),
        redis.call('ZSCORE', 'scores', 'member'), table.concat({n, 1.5}, ' '), cmsgpack.pack({n})}
    """
    for word in words:
        mirror.deliver(("EVAL", source, 0, word))


def test_the_frontier_gets_the_same_replies(mirror: Mirror) -> None:
    make: Any = partial(Machine, client(mirror), 1)
    run_state_machine_as_test(
        make,
        settings=settings(
            max_examples=20,
            stateful_step_count=40,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
