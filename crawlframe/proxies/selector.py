"""The selector of a proxy by a spider or a request: none, one of the pool, or a fixed one."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from crawlframe.base.urls import normalise

DIRECT = "direct"  # through no proxy
POOL = "pool"
SCHEMES = ("http", "https", "socks5", "socks5h")

_TAG = re.compile(r"[a-z0-9][a-z0-9_.-]{0,49}")
_COUNTRY = re.compile(r"[A-Za-z]{2}")
_URL = re.compile(r"(?P<scheme>[a-z0-9]+)://(?P<place>[^/?#]*)/?(?P<rest>.*)", re.DOTALL)
_PLACE = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^:@\[\]]+):(?P<port>\d{1,5})")
MOST_TIER = 255
MAX_SELECTOR = 300  # characters


class ProxyPool(NamedTuple):
    """Proxies of the pool with all of these tags, of this tier and country (two letters)."""

    tags: tuple[str, ...] = ()
    tier: int | None = None
    country: str = ""

    def __str__(self) -> str:
        """The canonical spelling, such as ``pool:country=DE,eu,tier=1``. Raises ValueError."""
        if isinstance(self.tags, str):
            raise ValueError(f"the tags of a proxy are a list of words, not {self.tags!r}")
        return parse_selector(f"{POOL}:{','.join(self._terms())}" if any(self._terms()) else POOL)

    def _terms(self) -> list[str]:
        terms = [*self.tags]
        if self.country:
            terms.append(f"country={self.country}")
        if self.tier is not None:
            terms.append(f"tier={self.tier}")
        return terms


class ProxyAddress(NamedTuple):
    """The address of a proxy, without credentials."""

    scheme: str
    host: str
    port: int

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def parse_selector(given: object) -> str:
    """The selector in its one spelling. ``given``: ``"pool"``, ``"pool:tag,country=DE,tier=1"``, a
    ProxyPool, the URL of a proxy, ``"direct"``, or None for the same. Raises ValueError, whose
    message follows the name of the setting."""
    if given is None or given == DIRECT:
        return DIRECT
    if isinstance(given, ProxyPool):
        return str(given)
    if isinstance(given, str) and len(given) <= MAX_SELECTOR:
        if given == POOL:
            return POOL
        if given.startswith(f"{POOL}:"):
            return _pool(given)
        if "://" in given:
            return check_address(given).url
    shown = repr(given) if not isinstance(given, str) or "@" not in given else "a text with @"
    raise ValueError(
        "must be 'pool', 'pool:' and tags, country=XX or tier=N joined by commas, the URL of a "
        f"proxy, or None for no proxy, not {shown}"
    )


def matches(selector: str, tier: int, country: str, tags: Collection[str]) -> bool:
    """Whether a checked selector of the pool allows such a proxy."""
    for term in filter(None, selector.partition(":")[2].split(",")):
        name, equals, value = term.partition("=")
        if equals and value != (country if name == "country" else str(tier)):
            return False
        if not equals and term not in tags:
            return False
    return True


def check_tag(tag: str) -> str:
    """Raises ValueError unless a proxy may have this tag."""
    if not _TAG.fullmatch(tag):
        raise ValueError(
            f"{tag!r} is not a tag: up to 50 lower-case letters, digits, '_', '.' and '-'"
        )
    return tag


def check_country(country: str) -> str:
    """Two capital letters. Raises ValueError."""
    if not _COUNTRY.fullmatch(country):
        raise ValueError(f"{country!r} is not a country: two letters, such as DE")
    return country.upper()


def check_address(url: str) -> ProxyAddress:
    """The address of a proxy, from a URL without credentials. Raises ValueError; the message does
    not show credentials."""
    if "@" in url:
        raise ValueError(
            "must not have credentials, because it is stored with the requests; import the proxy "
            "into the pool with a tag, and write 'pool:<tag>'"
        )
    found = _URL.fullmatch(url)
    place = found and _PLACE.fullmatch(found["place"])
    if not found or not place or found["rest"] or found["scheme"] not in SCHEMES:
        raise ValueError(
            f"{url!r} is not the URL of a proxy: {', '.join(SCHEMES)}, a host and a port, such as "
            "http://proxy.example:3128"
        )
    port = int(place["port"])
    if not 0 < port < 65536:
        raise ValueError(f"{url!r} is not the URL of a proxy: there is no port {port}")
    try:
        host = normalise(f"http://{place['host']}/")[len("http://") : -1]
    except Exception:
        raise ValueError(f"{url!r} is not the URL of a proxy: its host is wrong") from None
    return ProxyAddress(found["scheme"], host.strip("[]"), port)


def _pool(given: str) -> str:
    tags: set[str] = set()
    single: dict[str, str] = {}
    for term in given.removeprefix(f"{POOL}:").split(","):
        name, equals, value = term.partition("=")
        if not equals:
            tags.add(check_tag(term))
            continue
        if name == "country":
            value = check_country(value)
        elif name != "tier":
            raise ValueError(f"has {term!r}; write country=XX, tier=N, or a tag")
        elif not value.isdigit() or int(value) > MOST_TIER:
            raise ValueError(f"has {term!r}; a tier is a number from 0 to {MOST_TIER}")
        else:
            value = str(int(value))
        if single.setdefault(name, value) != value:
            raise ValueError(f"names the {name} twice")
    terms = sorted([*tags, *(f"{name}={value}" for name, value in single.items())])
    return f"{POOL}:{','.join(terms)}"
