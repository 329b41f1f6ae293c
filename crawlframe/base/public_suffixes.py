"""Public suffixes: below which names strangers have domains, by the Public Suffix List."""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

MAX_HOST = 253  # characters of a name of a host; a URL may have more


def registered_domain(host: str) -> str:
    """The registered domain of a host: www.shop.co.uk -> shop.co.uk. For an IP address, or a name
    that has none or is too long, the host itself."""
    return host if len(host) > MAX_HOST else _registered_domain(host)


@lru_cache(maxsize=100_000)
def _registered_domain(host: str) -> str:
    with suppress(ValueError):
        return str(ipaddress.ip_address(host.strip("[]")))
    return suffix_list().privatesuffix(host) or host


@lru_cache(maxsize=1)
def suffix_list() -> Any:
    """The list, private section included."""
    # Imported here: most crawls never need it, and it takes time and memory.
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList()


def suffix_rules() -> dict[str, int]:
    """End of a name -> how many more labels the public suffix has, where it is found first, from
    the longest end on: ``co.uk`` 0, ``ck`` 1 for the rule ``*.ck``, ``www.ck`` -1 for the exception
    to it. An end of one label that is not listed has 0, too."""
    from publicsuffixlist import PSLFILE

    lines = (line.split(maxsplit=1) for line in Path(PSLFILE).read_text("utf-8").splitlines())
    names = {words[0].lower() for words in lines if words and not words[0].startswith("//")}
    rules: dict[str, int] = {}
    for name in sorted(names, key=lambda name: (name[0] == "!", name.startswith("*."))):
        end, more = name, 0
        if name.startswith("*."):
            end, more = name[2:], 1
        elif name.startswith("!"):
            end, more = name[1:], -1
        if more or "." in end:
            rules[end] = rules[end.encode("idna").decode()] = more
    return rules
