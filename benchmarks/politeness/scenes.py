"""Scenes: the servers at which the crawl is judged, and the demands on it there."""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.politeness.limits import Bucket, Outage, Pool, Quota
from benchmarks.politeness.world import Host

HOUR = 3600.0  # seconds


class Goals(NamedTuple):
    """None where the scene does not ask for it."""

    refused: float | None = 0.02  # at most, of the requests after the warm-up
    reached: float | None = 0.85  # least share of the server's limit
    latency: float | None = 2.0  # at most, times the unloaded server's


class Scene(NamedTuple):
    """``pages`` URLs of one server. ``warm_up``: seconds after the start, and after each change of
    the server's limit, that are not judged. ``endless``: the server never serves all of them, so
    the crawl is watched for ``seconds`` and must not end."""

    name: str
    title: str
    host: Host
    pages: int
    seconds: float  # for a client that asks for as many pages as the server bears
    warm_up: float
    goals: Goals = Goals()
    endless: bool = False

    @property
    def paths(self) -> list[str]:
        return [f"/page/{number}" for number in range(self.pages)]


def scenes(quick: bool) -> list[Scene]:
    """All scenes; the quick ones are of the same kind, and last seconds instead of minutes."""
    warm_up, length = (6.0, 24.0) if quick else (30.0, 180.0)
    phases = (16.0, 32.0, 48.0) if quick else (120.0, 300.0, 420.0)
    out = (12.0, 18.0) if quick else (60.0, 120.0)

    def scene(name: str, title: str, number: int, limit: Bucket | Pool | Outage) -> Scene:
        end = phases[-1] if name == "changing" else length
        host = Host(f"127.0.3.{number}", limit=limit)
        return Scene(name, title, host, int(limit.allowed(0, end)), end, warm_up)

    changing = Bucket([(0.0, 20.0), (phases[0], 2.0), (phases[1], 20.0)])
    dated = scene("date", "5/s, Retry-After: a date", 3, Bucket([(0.0, 5.0)], rest=7.0))
    dated.host.dated = True
    hour = Scene(
        "hour", "20 pages, Retry-After: 3600", Host("127.0.3.4", limit=Quota(20, HOUR)),
        100, length, 0.0, Goals(None, None, None), endless=True,
    )  # fmt: skip
    return [
        scene("bucket", "5/s, 429 without a header", 1, Bucket([(0.0, 5.0)])),
        scene("seconds", "5/s, Retry-After: 7", 2, Bucket([(0.0, 5.0)], rest=7.0)),
        dated,
        hour,
        scene("latency", "20/s, latency grows with load", 5, Pool(2, 0.1)),
        scene("outage", "20/s, 503 for a minute", 6, Outage(20.0, *out)),
        scene("changing", "20/s, then 2/s, then 20/s", 7, changing),
    ]
