"""The pool for a command that fetches single pages."""

from __future__ import annotations

import random
from collections.abc import Callable

from django.db import DatabaseError

from crawlframe.proxies.proxy import ChosenProxy
from crawlframe.proxies.selector import matches
from crawlservice.proxies.pool import StoredProxies


def pool_here() -> Callable[[str], ChosenProxy | None]:
    """A function that returns one of the proxies that a choice allows, by chance; None if the pool
    has none, or if the database cannot be read. Raises SealError."""
    try:
        known = StoredProxies().read()
    except DatabaseError:
        known = []

    def pick(choice: str) -> ChosenProxy | None:
        fits = [one.proxy for one in known if matches(choice, one.tier, one.country, one.tags)]
        return random.choice(fits) if fits else None

    return pick
