"""Exposure to other machines: pages that reveal everything, keys that can be guessed. Checked
before Django is set up, so this imports nothing of the project."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterable, Mapping

from crawlframe.base.program import command

SHORTEST_KEY = 32  # characters
FEWEST_MARKS = 8  # least number of different characters in a key
KEY, FORMER_KEYS = "CRAWLFRAME_SECRET_KEY", "CRAWLFRAME_SECRET_KEY_FALLBACKS"
MENDS = {
    KEY: "make one: openssl rand -hex 32",
    FORMER_KEYS: f"run: {command('store reseal')}, and remove it there",
}
CHECKED = "WEB_CHECKED_BY_CRAWLFRAME"  # set for the processes of a web that passed


def weakness(key: str) -> str:
    """Why the text is unsuitable as a secret key; "" if it is suitable."""
    if len(key) < SHORTEST_KEY:
        return f"has {len(key)} characters, at least {SHORTEST_KEY} are needed"
    if len(set(key)) < FEWEST_MARKS:
        return f"has only {len(set(key))} different characters"
    return ""


def refusal(hosts: Iterable[str], environment: Mapping[str, str] = os.environ) -> str:
    """Why the web must not listen at these addresses with this environment; "" if it may."""
    debug = is_on(environment.get("CRAWLFRAME_DEBUG", ""))
    return problem(hosts, debug=debug, keys=configured_keys(environment))


def is_on(text: str) -> bool:
    """Whether a variable that is 1 or 0 is on."""
    return text.strip().lower() in ("1", "yes", "on", "true")


def configured_keys(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Variables and secret keys: the current one, unless it was generated, and former ones."""
    present = environment.get(KEY, "").strip()
    former = environment.get(FORMER_KEYS, "").replace(",", " ").split()
    return [(KEY, present)] * bool(present) + [(FORMER_KEYS, key) for key in former]


def problem(hosts: Iterable[str], *, debug: bool, keys: Iterable[tuple[str, str]]) -> str:
    """Why the web must not listen at these addresses; "" if it may. ``keys``: as from
    ``configured_keys``."""
    public = [host for host in hosts if not is_loopback(host)]
    if not public:
        return ""
    where = ", ".join(public)
    if debug:
        return (
            f"CRAWLFRAME_DEBUG=1 shows code and settings to everybody who reaches {where}; unset "
            "it, or listen at 127.0.0.1 only"
        )
    for variable, key in keys:
        if why := weakness(key):
            public_so = f"{where} is public: sessions could be forged"
            return f"{variable} {why}, and {public_so}; {MENDS[variable]}"
    return ""


def is_loopback(host: str) -> bool:
    """Whether an IP address, a host name or the path of a unix socket is local."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost" or host.startswith(("/", "@", "\0"))


def is_checked() -> bool:
    """Whether this is a process of a web whose addresses were checked."""
    return os.environ.get(CHECKED) == "1"
