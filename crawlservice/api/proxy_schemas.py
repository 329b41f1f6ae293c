"""What the API accepts and returns about proxies."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from crawlservice.api.schemas import Given

MOST = 1_000  # proxies added by one call


class ProxyFields(Given):
    """What is said of proxies. `tier`: the lowest that works for a host is used."""

    tier: int = 0
    tags: Annotated[list[str], Field(max_length=20)] = []
    country: Annotated[str, Field(max_length=2)] = ""
    max_concurrency: int = 0


class ProxiesIn(ProxyFields):
    """Proxies for the pool, each as `scheme://user:password@host:port`. Credentials are stored
    encrypted and never returned."""

    proxies: Annotated[list[Annotated[str, Field(max_length=1000)]], Field(max_length=MOST)]


class ProxyChange(Given):
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


class ProxiesAdded(BaseModel):
    """How many are new, and how many were in the pool."""

    new: int
    known: int
