"""Entry: a proxy as it is written in files and forms, and how it gets into the pool."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from django.db import transaction
from django.utils.crypto import salted_hmac

from crawlframe.errors import CrawlframeError
from crawlframe.proxies.choice import check_address, check_country, check_tag
from crawlservice.models import Proxy, ProxySource
from crawlservice.models.proxy import TAGS
from crawlservice.security.sealing import seal

MOST_TIER = 255
SALT = "crawlservice.proxies"


class BadProxy(CrawlframeError):
    """``field`` of a proxy has a value that it cannot have. No message shows credentials."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class Entry:
    """A proxy that was checked, with its credentials."""

    url: str  # without credentials
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    tier: int = 0
    tags: tuple[str, ...] = ()
    country: str = ""
    most: int = 0

    @property
    def key(self) -> str:
        """Tells it from others without showing the user name."""
        return salted_hmac(SALT, f"{self.url}\0{self.user}", algorithm="sha256").hexdigest()

    @property
    def sealed_login(self) -> str:
        return seal(f"{self.user}:{self.password}") if self.user else ""


def read_entry(
    text: str,
    *,
    tier: int = 0,
    tags: Iterable[str] = (),
    country: str = "",
    most: int = 0,
    scheme: str = "http",
) -> Entry:
    """``text``: ``[scheme://][user:password@]host:port``, or ``host:port:user:password``, as many
    lists have it. Raises BadProxy."""
    given, separator, rest = text.strip().partition("://")
    if not separator:
        given, rest = scheme, text.strip()
    login, at, place = rest.rpartition("@")
    parts = place.split(":")
    if not at and len(parts) == 4 and not place.startswith("["):
        place, login = ":".join(parts[:2]), ":".join(parts[2:])
        user, _, password = login.partition(":")
    else:
        user, _, password = (unquote(part) for part in login.partition(":"))
    try:
        url = check_address(f"{given}://{place}").url
    except ValueError:  # its text may show what is a password
        raise BadProxy(
            "url",
            "is not scheme://user:password@host:port or host:port:user:password, with http, https, "
            "socks5 or socks5h and a port from 1 to 65535",
        ) from None
    if ":" in user:
        raise BadProxy("url", "the user name of a proxy must not have a colon")
    return Entry(url, user, password, **check_fields(tier, tags, country, most))


def check_fields(tier: int, tags: Iterable[str], country: str, most: int) -> dict[str, Any]:
    """The fields of an Entry. Raises BadProxy."""
    if not 0 <= tier <= MOST_TIER:
        raise BadProxy("tier", f"tier is {tier}; it must be from 0 to {MOST_TIER}")
    if not 0 <= most <= 1_000_000:
        raise BadProxy("max_concurrency", f"{most} requests in flight; give 0 to 1,000,000")
    try:
        sorted_tags = tuple(sorted({check_tag(tag) for tag in tags}))
    except ValueError as error:
        raise BadProxy("tags", str(error)) from None
    if len(" ".join(sorted_tags)) > TAGS:
        raise BadProxy("tags", f"the tags have more than {TAGS} characters together")
    try:
        country = check_country(country) if country else ""
    except ValueError as error:
        raise BadProxy("country", str(error)) from None
    return {"tier": tier, "tags": sorted_tags, "country": country, "most": most}


def read_lines(lines: Iterable[str], **fields: Any) -> tuple[list[Entry], list[str]]:
    """The entries of a list, one in each line, and what is wrong with the other lines. Empty lines
    and those that begin with ``#`` are skipped."""
    entries: dict[str, Entry] = {}
    problems = []
    for number, line in enumerate(lines, 1):
        text = line.partition(" #")[0].strip()
        if not text or text.startswith("#"):
            continue
        try:
            entry = read_entry(text, **fields)
        except BadProxy as error:
            problems.append(f"line {number}: {error}")
        else:
            entries[entry.key] = entry
    return [*entries.values()], problems


def store(entries: Iterable[Entry], source: ProxySource | None = None) -> tuple[int, int]:
    """Adds proxies to the pool, or changes those that are there; they are used when they have been
    checked. Returns how many are new, and how many were there."""
    new = known = 0
    with transaction.atomic():
        for entry in entries:
            wanted = {
                "url": entry.url,
                "tier": entry.tier,
                "tags": " ".join(entry.tags),
                "country": entry.country,
                "max_concurrency": entry.most,
            }
            # Sealed anew each time, so it is only compared by what `key` covers.
            sealed = {"sealed_login": entry.sealed_login}
            row = Proxy.objects.filter(key=entry.key).first()
            if row is None:
                Proxy.objects.create(key=entry.key, source=source, **wanted, **sealed)
                new += 1
                continue
            known += 1
            for name, value in (wanted | sealed).items():
                setattr(row, name, value)
            row.save(update_fields=[*wanted, *sealed, "changed_at"])
    return new, known
