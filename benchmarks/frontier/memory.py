"""Memory: the bytes in Redis for a queued request and a seen URL, compared with scrapy-redis."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.frontier.rows import Queue, server
from benchmarks.frontier.web import Web
from benchmarks.lab import venv
from benchmarks.lab.redis import RedisServer

PEERS = ("PriorityQueue", "FifoQueue")
PROGRAM = Path(__file__).with_name("peer.py")
REQUIREMENTS = Path(__file__).with_name("requirements.txt")


class Memory(NamedTuple):
    """Bytes of Redis per URL, as its allocator counts them."""

    queued: int  # URLs
    admitted: int  # URLs, including those of requests that have ended
    request: float  # all bytes of a queued request: itself, its place in the queue, its fingerprint
    seen: float  # of these the fingerprint, which stays when the request has ended


class Peer(NamedTuple):
    """The same for scrapy-redis, and the cost of taking a request and looking up its links."""

    queue: str
    queued: int
    request: float  # bytes, dupefilter included
    redis_us: float
    client_us: float


def memory(queue: Queue) -> Memory:
    """Deletes everything on the way: what is freed is what it took."""
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


def peers(queued: int, taken: int, links: int, hosts: int, *options: str) -> list[Peer]:
    """Raises RuntimeError when scrapy-redis cannot be installed or fails."""
    python = venv.environment("frontier-peer", REQUIREMENTS)
    web = Web(hosts)
    urls = "".join(f"{web.url(number)}\n" for number in range(queued + taken))
    rows = []
    for kind in PEERS:
        with server(*options) as redis:
            numbers = map(str, (queued, taken, links))
            command = [str(python), str(PROGRAM), redis.url, kind, *numbers]
            done = subprocess.run(command, input=urls, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"scrapy-redis: {done.stderr.strip()[-1000:]}")
        data = json.loads(done.stdout)
        rows.append(Peer(kind, queued, data["bytes"] / queued, data["redis"], data["client"]))
    return rows
