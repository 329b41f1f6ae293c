"""Commands of sorted sets."""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache
from typing import Any

from tests.simulation.redis.command import (
    LIST,
    PAGE,
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
    SYNTAX,
    ReplyError,
    Set,
    SortedSet,
    double,
    double_text,
    integer,
)

JOINS: dict[bytes, Any] = {
    b"MIN": min,
    b"MAX": max,
    b"SUM": lambda a, b: 0.0 if math.isnan(a + b) else a + b,
}


def zadd(db: Keyspace, key: bytes, score: bytes, member: bytes, *more: bytes) -> int:
    words, options, at = (score, member, *more), set(), 0
    while at < len(words) and words[at].upper() in {b"NX", b"XX", b"GT", b"LT", b"CH"}:
        options.add(words[at].upper())
        at += 1
    if at == len(words) or (len(words) - at) % 2:
        raise SYNTAX
    if options >= {b"NX", b"XX"}:
        raise ReplyError("ERR XX and NX options at the same time are not compatible")
    if len(options & {b"NX", b"GT", b"LT"}) > 1:
        raise ReplyError("ERR GT, LT, and/or NX options at the same time are not compatible")
    scores, members = [*map(double, words[at::2])], words[at + 1 :: 2]
    content, added, changed = db.change(key, SortedSet), 0, 0
    for new, name in zip(scores, members, strict=True):
        old = content.get(name)
        if old is None:
            if b"XX" in options:
                continue
            added += 1
        elif (
            b"NX" in options
            or (b"GT" in options and new <= old)
            or (b"LT" in options and new >= old)
        ):
            continue
        changed += new != old
        content.put(name, new)
    db.trim(key, content)
    return changed if b"CH" in options else added


def zrem(db: Keyspace, key: bytes, member: bytes, *members: bytes) -> int:
    if not db.read(key, SortedSet):
        return 0
    content = db.change(key, SortedSet)
    gone = sum([content.drop(one) for one in (member, *members)])
    db.trim(key, content)
    return gone


def zmscore(db: Keyspace, key: bytes, *members: bytes) -> Any:
    scores = map(db.read(key, SortedSet).get, members)
    return several([False if score is None else double_text(score) for score in scores])


def zcount(db: Keyspace, key: bytes, least: bytes, most: bytes) -> int:
    start, end = _between(db, key, least, most)
    return max(0, end - start)


def zrange(db: Keyspace, key: bytes, first: bytes, last: bytes, *options: bytes) -> Any:
    bounds = integer(first), integer(last)
    order = db.read(key, SortedSet).order
    return _listed(order[span(*bounds, len(order))], *options)


def zrangebyscore(db: Keyspace, key: bytes, least: bytes, most: bytes, *options: bytes) -> Any:
    words, skip, limit = [*map(bytes.upper, options)], 0, -1
    if b"LIMIT" in words[:-2]:
        at = words.index(b"LIMIT")
        skip, limit = integer(options[at + 1]), integer(options[at + 2])
        options = options[:at] + options[at + 3 :]
    start, end = _between(db, key, least, most)
    start = start + skip if skip >= 0 else end
    found = slice(start, end if limit < 0 else min(end, start + limit))
    return _listed(db.read(key, SortedSet).order[found], *options)


def zremrangebyscore(db: Keyspace, key: bytes, least: bytes, most: bytes) -> int:
    return len(_cut(db, key, *_between(db, key, least, most)))


def zpopmin(db: Keyspace, key: bytes, count: bytes = b"1") -> Any:
    return _listed(_cut(db, key, 0, positive(count)), b"WITHSCORES")


def zunionstore(db: Keyspace, target: bytes, count: bytes, *words: bytes) -> int:
    n = integer(count)
    if n < 1:
        raise ReplyError("ERR at least 1 input key is needed for 'zunionstore' command")
    keys, options = words[:n], [word.upper() for word in words[n:]]
    if len(keys) < n or (options and (options[0] != b"AGGREGATE" or options[-1] not in JOINS)):
        raise SYNTAX
    join = JOINS[options[1] if options else b"SUM"]
    scores: dict[bytes, float] = {}
    for key in keys:
        if isinstance(db.values.get(key), Set):
            entries = dict.fromkeys(db.values[key], 1.0)
        else:
            entries = db.read(key, SortedSet)
        for member, score in entries.items():
            scores[member] = join(scores[member], score) if member in scores else score
    db.put(target, SortedSet(scores))
    db.trim(target, scores)
    return len(scores)


def zscan(db: Keyspace, key: bytes, cursor: bytes, *options: bytes) -> Any:
    scores = db.read(key, SortedSet)
    after, members = page(scores, cursor, *options)
    return after, [part for one in members for part in (one, double_text(scores[one]))]


def _between(db: Keyspace, key: bytes, least: bytes, most: bytes) -> tuple[int, int]:
    """Half-open range of the ranks with scores from ``least`` to ``most``."""
    low, high = _limit(least, after=False), _limit(most, after=True)
    order = db.read(key, SortedSet).order
    return (
        len(order) if low is None else bisect_left(order, low),
        len(order) if high is None else bisect_left(order, high),
    )


@lru_cache(maxsize=10_000)
def _limit(word: bytes, *, after: bool) -> tuple[float] | None:
    """Place in an order before all entries of a score, or after them; None: at the end."""
    excluded = word[:1] == b"("
    score = double(word[1:] if excluded else word, "min or max is not a float")
    if after == excluded:
        return (score,)
    return None if score == math.inf else (math.nextafter(score, math.inf),)


def _cut(db: Keyspace, key: bytes, start: int, end: int) -> list[tuple[float, bytes]]:
    """The entries of these ranks, removed."""
    gone: list[tuple[float, bytes]] = db.read(key, SortedSet).order[start:end]
    if gone:
        content = db.change(key, SortedSet)
        del content.order[start:end]
        for _, member in gone:
            del content[member]
        db.trim(key, content)
    return gone


def _listed(entries: list[tuple[float, bytes]], *options: bytes) -> Any:
    if not options:
        return several([member for _, member in entries])
    if len(options) > 1 or options[0].upper() != b"WITHSCORES":
        raise SYNTAX
    return several([part for score, member in entries for part in (member, double_text(score))])


COMMANDS = {
    b"ZADD": growing(zadd),
    b"ZREM": writing(zrem),
    b"ZSCORE": Command(lambda db, key, member: zmscore(db, key, member)[0]),
    b"ZMSCORE": Command(zmscore, LIST),
    b"ZCARD": Command(lambda db, key: len(db.read(key, SortedSet))),
    b"ZCOUNT": Command(zcount),
    b"ZRANGE": Command(zrange, LIST),
    b"ZRANGEBYSCORE": Command(zrangebyscore, LIST),
    b"ZREMRANGEBYSCORE": writing(zremrangebyscore),
    b"ZPOPMIN": writing(zpopmin, LIST),
    b"ZUNIONSTORE": growing(zunionstore),
    b"ZSCAN": Command(zscan, PAGE),
}
