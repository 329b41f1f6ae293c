"""What must not be reachable from other machines: pages that tell everything, keys that can be
guessed. It is asked before Django is set up, so it imports nothing of the project."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterable

SHORTEST_KEY = 32  # characters
FEWEST_MARKS = 8  # different characters of a key
CHECKED = "WEB_CHECKED_BY_CRAWLFRAME"  # set for the processes of a web that passed


def weakness(key: str) -> str:
    """Why the text is no secret key; "" when it is one."""
    if len(key) < SHORTEST_KEY:
        return f"has {len(key)} characters, at least {SHORTEST_KEY} are needed"
    if len(set(key)) < FEWEST_MARKS:
        return f"has only {len(set(key))} different characters"
    return ""


def problem(hosts: Iterable[str], *, debug: bool, key: str) -> str:
    """Why the web must not listen at these addresses; "" when it may. ``key``: as configured,
    "" when it is generated."""
    public = [host for host in hosts if not is_loopback(host)]
    if not public:
        return ""
    where = ", ".join(public)
    if debug:
        return (
            f"CRAWLFRAME_DEBUG=1 shows code and settings to everybody who reaches {where}; unset "
            "it, or listen at 127.0.0.1 only"
        )
    if key and (why := weakness(key)):
        return (
            f"CRAWLFRAME_SECRET_KEY {why}, and {where} is public: sessions could be forged; make "
            "one: openssl rand -hex 32"
        )
    return ""


def is_loopback(host: str) -> bool:
    """Of an IP address, a host name or the path of a unix socket."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost" or host.startswith(("/", "@", "\0"))


def is_checked() -> bool:
    """Whether this is a process of a web whose addresses were looked at."""
    return os.environ.get(CHECKED) == "1"
