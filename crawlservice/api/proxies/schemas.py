"""What the API accepts and returns about proxies."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from crawlservice.api.parts.paging import TEXT
from crawlservice.api.parts.schemas import StrictInput

MAX_PROXIES = 1_000  # proxies added by one call


class ProxyFields(StrictInput):
    """What is said of proxies. `tier`: the lowest that works for a host is used."""

    tier: int = 0
    tags: Annotated[list[str], Field(max_length=20)] = []
    country: Annotated[str, Field(max_length=2)] = ""
    max_concurrency: int = 0


class ProxiesIn(ProxyFields):
    """Proxies for the pool, each as `scheme://user:password@host:port`. Credentials are stored
    encrypted and never returned."""

    proxies: Annotated[list[Annotated[str, Field(max_length=1000)]], Field(max_length=MAX_PROXIES)]


class ProxyChange(StrictInput):
    """What changes; the rest stays."""

    tier: int | None = None
    tags: Annotated[list[str], Field(max_length=20)] | None = None
    country: Annotated[str, Field(max_length=2)] | None = None
    max_concurrency: int | None = None
    enabled: bool | None = None


class ProxyOut(BaseModel):
    """A proxy of the pool. `login`: whether it has credentials."""

    id: int
    url: str
    login: bool
    tier: int
    tags: list[str]
    country: str
    max_concurrency: int
    enabled: bool
    state: Literal["new", "working", "failed"]
    problem: str
    latency_ms: int | None
    checked_at: datetime | None


class ProxiesOut(BaseModel):
    """Proxies, the oldest first."""

    proxies: list[ProxyOut]
    next: int | None


class ProxyListIn(ProxyFields):
    """A list of proxies. `place`: its URL, or a path that all nodes have. `spider`: one that yields
    Proxy items, in place of it, with these `arguments`. `every`: seconds between two reads; 0: the
    spider has a schedule of its own. Address and arguments are stored encrypted and never
    returned."""

    name: Annotated[str, Field(min_length=1, max_length=100, pattern=TEXT)]
    place: Annotated[str, Field(max_length=2000, pattern=TEXT)] = ""
    spider: Annotated[str, Field(max_length=100, pattern=TEXT)] = ""
    arguments: dict[str, Any] = {}
    every: int = 3600
    enabled: bool = True

    @property
    def arguments_text(self) -> str:
        return json.dumps(self.arguments)


class ProxyListOut(BaseModel):
    """A list of proxies. `found`: how many it has in the pool; `problem`: of the last read, or why
    the last task of its spider is not complete; `run`: the latest task that was started for it."""

    id: int
    name: str
    spider: str
    every: int
    tier: int
    tags: list[str]
    country: str
    max_concurrency: int
    enabled: bool
    found: int
    problem: str
    run: int
    read_at: datetime | None
    next_at: datetime | None


class ProxyListsOut(BaseModel):
    """Lists of proxies, the oldest first."""

    lists: list[ProxyListOut]
    next: int | None


class ProxiesAdded(BaseModel):
    """How many are new, and how many were in the pool; of these, how many have changed."""

    new: int
    known: int
    changed: int
