"""Commands of keys, strings, hashes, lists and sets."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice, repeat
from typing import Any

from tests.simulation.redis.command import (
    COUNTED,
    LIST,
    PAGE,
    STATUS,
    Command,
    growing,
    page,
    positive,
    several,
    span,
    writing,
)
from tests.simulation.redis.keyspace import Keyspace
from tests.simulation.redis.values import (
    INT64,
    SYNTAX,
    Hash,
    List,
    ReplyError,
    Set,
    SortedSet,
    integer,
    pattern,
)

TYPES = {bytes: b"string", Hash: b"hash", List: b"list", Set: b"set", SortedSet: b"zset"}
UNITS = {b"EX": 1000, b"PX": 1, b"EXAT": 1000, b"PXAT": 1}  # ms


def remove(db: Keyspace, key: bytes, *keys: bytes) -> int:
    return sum([db.remove(one) for one in (key, *keys)])


def expire_at(db: Keyspace, key: bytes, ms: int) -> int:
    if key not in db.values:
        return 0
    db.expire_at(key, ms)
    return 1


def pttl(db: Keyspace, key: bytes) -> int:
    if key not in db.values:
        return -2
    at = db.expiry.get(key)
    return -1 if at is None else max(0, at - db.now_ms)


# -- strings --------------------------------------------------------------------------------------


def set_string(db: Keyspace, key: bytes, value: bytes, *options: bytes) -> bytes | bool:
    words, time, rest = set(), b"", iter(options)
    for option in rest:
        words.add(word := option.upper())
        if word in UNITS:
            unit, time = word, next(rest, b"")
    ways = words & {b"KEEPTTL", *UNITS}
    if len(ways) > 1 or words >= {b"NX", b"XX"} or words - ways - {b"NX", b"XX"}:
        raise SYNTAX
    if not time and ways & {*UNITS}:
        raise SYNTAX
    if time and integer(time) <= 0:
        raise ReplyError("ERR invalid expire time in 'set' command")
    if key in db.values if b"NX" in words else b"XX" in words and key not in db.values:
        return False
    db.put(key, value, keep_expiry=b"KEEPTTL" in words)
    if time:
        since = 0 if unit.endswith(b"AT") else db.now_ms
        db.expire_at(key, since + UNITS[unit] * integer(time))
    return b"OK"


def incrby(db: Keyspace, key: bytes, step: bytes = b"1") -> int:
    number = integer(step)
    total = added(integer(db.read(key, bytes) if key in db.values else b"0"), number)
    db.put(key, b"%d" % total, keep_expiry=True)
    return total


def added(value: int, step: int) -> int:
    """Sum of two integers of 64 bits."""
    if not -INT64 <= value + step < INT64:
        raise ReplyError("ERR increment or decrement would overflow")
    return value + step


# -- hashes ---------------------------------------------------------------------------------------


def hset(db: Keyspace, key: bytes, field: bytes, value: bytes, *more: bytes) -> int:
    if len(more) % 2:
        raise ReplyError("ERR wrong number of arguments for 'hset' command")
    content = db.change(key, Hash)
    before = len(content)
    content[field] = value
    if more:
        content.update(zip(more[::2], more[1::2], strict=True))
    return len(content) - before


def hsetnx(db: Keyspace, key: bytes, field: bytes, value: bytes) -> int:
    return 0 if field in db.read(key, Hash) else hset(db, key, field, value)


def hincrby(db: Keyspace, key: bytes, field: bytes, step: bytes) -> int:
    number = integer(step)
    old = integer(db.read(key, Hash).get(field, b"0"), "hash value is not an integer")
    total = added(old, number)
    db.change(key, Hash)[field] = b"%d" % total
    return total


def hscan(db: Keyspace, key: bytes, cursor: bytes, *options: bytes) -> Any:
    content = db.read(key, Hash)
    after, fields = page(content, cursor, *options)
    return after, [part for field in fields for part in (field, content[field])]


# -- sets, and what they have in common with hashes -----------------------------------------------


def sadd(db: Keyspace, key: bytes, member: bytes, *members: bytes) -> int:
    content = db.change(key, Set)
    before = len(content)
    content[member] = None
    if members:
        content.update(dict.fromkeys(members))
    return len(content) - before


def dropped(kind: type) -> Any:
    """HDEL or SREM."""

    def drop(db: Keyspace, key: bytes, name: bytes, *names: bytes) -> int:
        if not db.read(key, kind):
            return 0
        content = db.change(key, kind)
        before = len(content)
        for one in (name, *names):
            content.pop(one, None)
        left = len(content)
        db.trim(key, content)
        return before - left

    return drop


def drawn(db: Keyspace, names: Iterable[bytes], *count: bytes) -> Any:
    """One random name, or ``count`` different ones."""
    left, random = [*names], db.random.random
    wanted = positive(*count) if count else 1
    for i in range(min(wanted, len(left) - 1)):
        j = i + int(random() * (len(left) - i))
        left[i], left[j] = left[j], left[i]
    return several(left[:wanted]) if count else left[0] if left else False


def spop(db: Keyspace, key: bytes, *count: bytes) -> Any:
    found = drawn(db, db.read(key, Set), *count)
    if found:
        srem(db, key, *([found] if isinstance(found, bytes) else found))
    return found


# -- lists ----------------------------------------------------------------------------------------


def rpush(db: Keyspace, key: bytes, element: bytes, *elements: bytes) -> int:
    content = db.change(key, List)
    content.append(element)
    content.extend(elements)
    return len(content)


def lpush(db: Keyspace, key: bytes, element: bytes, *elements: bytes) -> int:
    content = db.change(key, List)
    content.appendleft(element)
    content.extendleft(elements)
    return len(content)


def lpop(db: Keyspace, key: bytes, *count: bytes) -> Any:
    wanted = positive(*count) if count else 1
    if not db.read(key, List):
        return False
    content = db.change(key, List)
    found = [content.popleft() for _ in range(min(wanted, len(content)))]
    db.trim(key, content)
    return several(found) if count else found[0]


def lrange(db: Keyspace, key: bytes, start: bytes, end: bytes) -> Any:
    bounds = integer(start), integer(end)
    content = db.read(key, List)
    part = span(*bounds, len(content))
    return several(islice(content, part.start, part.stop))


hdel, srem = dropped(Hash), dropped(Set)

COMMANDS = {
    # keys
    b"DEL": writing(remove),
    b"UNLINK": writing(remove),
    b"EXISTS": Command(lambda db, key, *keys: sum([one in db.values for one in (key, *keys)])),
    b"TYPE": Command(lambda db, key: TYPES.get(db.values.get(key).__class__, b"none"), STATUS),
    b"EXPIRE": writing(
        lambda db, key, seconds: expire_at(db, key, db.now_ms + 1000 * integer(seconds))
    ),
    b"PEXPIRE": writing(lambda db, key, ms: expire_at(db, key, db.now_ms + integer(ms))),
    b"PEXPIREAT": writing(lambda db, key, ms: expire_at(db, key, integer(ms))),
    b"PERSIST": writing(lambda db, key: int(db.expiry.pop(key, None) is not None)),
    b"PTTL": Command(pttl),
    b"SCAN": Command(lambda db, cursor, *options: page(db.values, cursor, *options), PAGE),
    b"KEYS": Command(lambda db, glob: several(filter(pattern(glob).fullmatch, db.values)), LIST),
    b"TIME": Command(
        lambda db: (b"%d" % (db.now // 1_000_000), b"%d" % (db.now % 1_000_000)), LIST
    ),
    # strings
    b"GET": Command(lambda db, key: db.read(key, bytes) if key in db.values else False),
    b"SET": growing(set_string, STATUS),
    b"INCR": growing(lambda db, key: incrby(db, key)),
    b"INCRBY": growing(incrby),
    # hashes
    b"HGET": Command(lambda db, key, field: db.read(key, Hash).get(field, False)),
    b"HMGET": Command(
        lambda db, key, *fields: several(map(db.read(key, Hash).get, fields, repeat(False))), LIST
    ),
    b"HGETALL": Command(
        lambda db, key: several(chain.from_iterable(db.read(key, Hash).items())), LIST
    ),
    b"HKEYS": Command(lambda db, key: several(db.read(key, Hash)), LIST),
    b"HLEN": Command(lambda db, key: len(db.read(key, Hash))),
    b"HEXISTS": Command(lambda db, key, field: int(field in db.read(key, Hash))),
    b"HSTRLEN": Command(lambda db, key, field: len(db.read(key, Hash).get(field, b""))),
    b"HSET": growing(hset),
    b"HSETNX": growing(hsetnx),
    b"HDEL": writing(hdel),
    b"HINCRBY": growing(hincrby),
    b"HSCAN": Command(hscan, PAGE),
    b"HRANDFIELD": Command(
        lambda db, key, *count: drawn(db, db.read(key, Hash), *count), COUNTED
    ),
    # sets
    b"SADD": growing(sadd),
    b"SREM": writing(srem),
    b"SISMEMBER": Command(lambda db, key, member: int(member in db.read(key, Set))),
    b"SMISMEMBER": Command(
        lambda db, key, *members: several(map(int, map(db.read(key, Set).__contains__, members))),
        LIST,
    ),
    b"SCARD": Command(lambda db, key: len(db.read(key, Set))),
    b"SMEMBERS": Command(lambda db, key: several(db.read(key, Set)), LIST),
    b"SRANDMEMBER": Command(lambda db, key, *count: drawn(db, db.read(key, Set), *count), COUNTED),
    b"SPOP": writing(spop, COUNTED),
    # lists
    b"RPUSH": growing(rpush),
    b"LPUSH": growing(lpush),
    b"LPOP": writing(lpop, COUNTED),
    b"LLEN": Command(lambda db, key: len(db.read(key, List))),
    b"LRANGE": Command(lrange, LIST),
}  # fmt: skip
