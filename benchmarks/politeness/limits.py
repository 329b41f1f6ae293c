"""Limits: the capacity of a simulated server, and its answers beyond it. Times are seconds since
the server's first page request; nothing here looks at a clock."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

OK, MOVED, MISSING, TOO_MANY, UNAVAILABLE = 200, 301, 404, 429, 503
LATENCY = 0.05  # seconds for a page of a server at ease


class Reply(NamedTuple):
    """``rest``: seconds that Retry-After names, None for no such header."""

    status: int
    latency: float = LATENCY  # seconds until it is sent
    rest: float | None = None


class Limit(msgspec.Struct, tag=True):
    """Bears everything."""

    @property
    def changes(self) -> list[float]:
        """The instants from which on it bears something else; the first is 0."""
        return [0.0]

    @property
    def unloaded(self) -> float:
        """Seconds for a page when there is no other."""
        return LATENCY

    def reply(self, now: float) -> Reply:
        """The reply to a page request. Calls come in the order of time."""
        return Reply(OK)

    def allowed(self, start: float, end: float) -> float:
        """The pages that it serves between two instants to a client that asks for as many as it
        bears."""
        return float("inf")


class Bucket(Limit, tag=True):
    """A token bucket, which holds the tokens of a second. ``steps``: (from when on, tokens per
    second), the first from 0 on. A request without a token is refused with 429."""

    steps: list[tuple[float, float]]
    rest: float | None = None  # seconds, named in Retry-After
    tokens: float = -1.0  # in the bucket, at ``last``; below 0 before the first request
    last: float = 0.0

    @property
    def changes(self) -> list[float]:
        return [start for start, _ in self.steps]

    def reply(self, now: float) -> Reply:
        size = max(1.0, self._rate(now))
        if self.tokens < 0:
            self.tokens = size
        self.tokens = min(size, self.tokens + self.allowed(self.last, now))
        self.last = now
        if self.tokens < 1:
            return Reply(TOO_MANY, 0.0, self.rest)
        self.tokens -= 1
        return Reply(OK)

    def allowed(self, start: float, end: float) -> float:
        ends = [*self.changes[1:], float("inf")]
        return sum(
            rate * max(0.0, min(end, until) - max(start, since))
            for (since, rate), until in zip(self.steps, ends, strict=True)
        )

    def _rate(self, now: float) -> float:
        return next(rate for start, rate in reversed(self.steps) if start <= now)


class Outage(Limit, tag=True):
    """A token bucket of ``rate`` a second that answers 503 from ``start`` to ``end``."""

    rate: float
    start: float
    end: float
    bucket: Bucket | None = None

    @property
    def changes(self) -> list[float]:
        return [0.0, self.start, self.end]

    def reply(self, now: float) -> Reply:
        if self.start <= now < self.end:
            return Reply(UNAVAILABLE, 0.0)
        self.bucket = self.bucket or Bucket([(0.0, self.rate)])
        return self.bucket.reply(now)

    def allowed(self, start: float, end: float) -> float:
        out = max(0.0, min(end, self.end) - max(start, self.start))
        return self.rate * (end - start - out)


class Pool(Limit, tag=True):
    """Serves everything in turn, ``size`` pages at a time, each in ``seconds``: the more requests
    wait, the longer each takes."""

    size: int
    seconds: float
    free: list[float] = []  # when each place is free again

    @property
    def unloaded(self) -> float:
        return self.seconds

    def reply(self, now: float) -> Reply:
        busy = sorted(self.free or [0.0] * self.size)
        done = max(now, busy[0]) + self.seconds
        self.free = [*busy[1:], done]
        return Reply(OK, done - now)

    def allowed(self, start: float, end: float) -> float:
        return (end - start) * self.size / self.seconds


class Quota(Limit, tag=True):
    """Serves ``pages``, then refuses everything and names ``rest`` seconds."""

    pages: int
    rest: float

    def reply(self, now: float) -> Reply:
        if self.pages <= 0:
            return Reply(TOO_MANY, 0.0, self.rest)
        self.pages -= 1
        return Reply(OK)

    def allowed(self, start: float, end: float) -> float:
        return 0.0


AnyLimit = Limit | Bucket | Outage | Pool | Quota
