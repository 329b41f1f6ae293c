"""Names: the addresses of the job's hosts on 127/8, as each crawler resolves them."""

from __future__ import annotations

import math

DOMAIN = "pages.test"


def address_of(host: str) -> str:
    """The address of a host of the job. Raises ValueError for another name."""
    name, _, domain = host.partition(".")
    number = int(name[1:].partition("-")[0])
    if domain != DOMAIN:
        raise ValueError(host)
    return f"127.1.{number >> 8}.{number & 255}"


async def resolve(host: str) -> tuple[list[str], float]:
    """The setting CRAWLFRAME_RESOLVER."""
    return [address_of(host)], math.inf
