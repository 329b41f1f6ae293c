"""The product token: a crawler's name in robots.txt (RFC 9309, 2.2.1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

_PRODUCT = re.compile(r"[A-Za-z0-9_-]+")
# "Mozilla/5.0 (compatible; Examplebot/2.1; ...)": the product of the crawler.
_COMPATIBLE = re.compile(r"mozilla/[^(]*\(compatible;\s*([A-Za-z0-9_-]+)", re.I)


@lru_cache(maxsize=256)
def product_token(user_agent: str) -> str:
    """Returns the first product name of a User-Agent in lower case, such as ``crawlframe``; "*" if
    it has none, to which only the rules for all crawlers apply."""
    if compatible := _COMPATIBLE.match(user_agent):
        return compatible[1].lower()
    product = _PRODUCT.match(user_agent.strip())
    return product[0].lower() if product else "*"


def user_agent_of(*headers: Mapping[str, str]) -> str:
    """Returns the User-Agent that the first of these headers have; "" if none has one."""
    for some in headers:
        for name, value in some.items():
            if name.lower() == "user-agent":
                return str(value)
    return ""
