"""Memory: the bytes in Redis for a queued request and a seen URL."""

from __future__ import annotations

import time
from typing import NamedTuple

from benchmarks.frontier.rows import Queue
from benchmarks.lab.redis import RedisServer


class Memory(NamedTuple):
    """Bytes of Redis per URL, as its allocator counts them."""

    queued: int  # URLs
    admitted: int  # URLs, including URLs of requests that have ended
    request: float  # all bytes of a queued request: itself, its place in the queue, its fingerprint
    seen: float  # of these the fingerprint, which stays when the request has ended


def memory(queue: Queue) -> Memory:
    """Deletes everything on the way: the freed memory is the memory used."""
    counts = queue.counts()
    redis = queue.server
    everything = redis.memory()
    for key in list(redis.client.scan_iter(count=10_000)):
        if b":seen:" not in key:
            redis.client.unlink(key)
    fingerprints = _settled(redis)
    redis.client.flushall(asynchronous=True)
    nothing = _settled(redis)
    seen = (fingerprints - nothing) / counts.na
    request = (everything - fingerprints) / counts.nr + seen
    return Memory(counts.nr, counts.na, request, seen)


def _settled(redis: RedisServer) -> int:
    """Bytes allocated when all that was deleted is given back, which Redis does by and by."""
    while int(redis.client.info("memory")["lazyfree_pending_objects"]):
        time.sleep(0.05)
    return redis.memory()
