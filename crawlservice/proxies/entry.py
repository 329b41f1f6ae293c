"""Entry: a proxy as it is written in files and forms, and how it gets into the pool."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.db import transaction
from django.utils import timezone
from django.utils.crypto import salted_hmac

from crawlframe.errors import FieldError
from crawlframe.proxies.proxy import Proxy as ListedProxy
from crawlframe.proxies.proxy import read_text
from crawlframe.proxies.selector import MOST_TIER, check_country, check_tag
from crawlservice.models import Proxy, ProxySource
from crawlservice.models.proxy import TAGS
from crawlservice.security.sealing import SealError, seal, unseal

BATCH = 500  # rows
SALT = "crawlservice.proxies"
FIELDS = ("url", "tier", "tags", "country", "max_concurrency")
SET = (*FIELDS, "sealed_login", "named_by")


class BadProxy(FieldError):
    """``field`` of a proxy has a value that it cannot have. No message shows credentials."""


@dataclass(frozen=True)
class Entry:
    """A proxy that was checked, with its credentials."""

    url: str  # without credentials
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    tier: int = 0
    tags: str = ""
    country: str = ""
    max_concurrency: int = 0

    @property
    def key(self) -> str:
        """Tells it from others without showing the user name."""
        return salted_hmac(SALT, f"{self.url}\0{self.user}", algorithm="sha256").hexdigest()

    @property
    def sealed_login(self) -> str:
        return seal(self.login)

    @property
    def login(self) -> str:
        """``user:password``, or ""."""
        return f"{self.user}:{self.password}" if self.user else ""


def read_entry(text: str, *, scheme: str = "http", **fields: Any) -> Entry:
    """``text``: ``[scheme://][user:password@]host:port``, or ``host:port:user:password``, as many
    lists have it. ``fields``: as for check_fields. Raises BadProxy."""
    try:
        written = read_text(text, scheme)
    except ValueError as error:
        raise BadProxy("url", str(error)) from None
    return Entry(*written, **check_fields(**fields))


def entry_of(proxy: ListedProxy, source: ProxySource) -> Entry:
    """The entry of an item; missing fields are as the list has them. Raises BadProxy."""
    fields = check_fields(
        source.tier if proxy.tier is None else proxy.tier,
        {*source.tags.split(), *proxy.tags},
        proxy.country or source.country,
        source.max_concurrency if proxy.max_concurrency is None else proxy.max_concurrency,
    )
    return Entry(proxy.url, proxy.username, proxy.password.reveal(), **fields)


def check_fields(
    tier: int = 0, tags: Iterable[str] = (), country: str = "", max_concurrency: int = 0
) -> dict[str, Any]:
    """These fields, as Entry and the tables have them. Raises BadProxy."""
    if not 0 <= tier <= MOST_TIER:
        raise BadProxy("tier", f"tier is {tier}; it must be from 0 to {MOST_TIER}")
    if not 0 <= max_concurrency <= 1_000_000:
        text = f"{max_concurrency} requests in flight; give 0 to 1,000,000"
        raise BadProxy("max_concurrency", text)
    try:
        joined = " ".join(sorted({check_tag(tag) for tag in tags}))
    except ValueError as error:
        raise BadProxy("tags", str(error)) from None
    if len(joined) > TAGS:
        raise BadProxy("tags", f"the tags have more than {TAGS} characters together")
    try:
        country = check_country(country) if country else ""
    except ValueError as error:
        raise BadProxy("country", str(error)) from None
    return {"tier": tier, "tags": joined, "country": country, "max_concurrency": max_concurrency}


def read_lines(lines: Iterable[str], **fields: Any) -> tuple[list[Entry], list[str]]:
    """The entries of a list, one in each line, and the problems of the other lines. Empty lines and
    comments (``#``) are skipped."""
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


class Imported(NamedTuple):
    """Numbers of proxies. ``changed``: existing proxies that got other fields or credentials."""

    new: int = 0
    changed: int = 0
    unchanged: int = 0


def store(entries: Iterable[Entry], source: ProxySource | None = None, run: int = 0) -> Imported:
    """Adds proxies to the pool, or changes existing ones; they are used when they have been
    checked. ``run``: the task that has named them, which changes proxies of its list only."""
    wanted = {entry.key: entry for entry in entries}
    new = known = changed = 0
    with transaction.atomic():
        # As they were given; the pages of tasks in one order, so that two cannot deadlock.
        ordered = sorted(wanted) if run else [*wanted]
        for start in range(0, len(ordered), BATCH):
            keys = ordered[start : start + BATCH]
            rows = Proxy.objects.select_for_update().filter(key__in=keys).order_by("key")
            there = {row.key: row for row in rows}
            missing = [wanted[key] for key in keys if key not in there]
            known += len(there)
            new += len(missing)
            ours = [row for row in there.values() if source is None or row.source_id == source.pk]
            for row in ours:
                other = _has_other_login(row, wanted[row.key])
                entry = wanted[row.key]
                changed += other or any(getattr(row, n) != getattr(entry, n) for n in FIELDS)
                if other:
                    row.state, row.check_at = Proxy.State.NEW, None
                elif source is None and row.state == Proxy.State.FAILED:
                    row.check_at = None
                _set(row, wanted[row.key], run)
                if source is None:  # entered by an operator, so no list removes it
                    row.source = None
            Proxy.objects.bulk_update(ours, [*SET, "source", "state", "check_at", "changed_at"])
            added = [Proxy(key=entry.key, source=source) for entry in missing]
            for row in added:
                _set(row, wanted[row.key], run)
            # One that another source adds at this instant stays as that one has it.
            Proxy.objects.bulk_create(added, ignore_conflicts=True)
    return Imported(new, changed, known - changed)


def _has_other_login(row: Proxy, entry: Entry) -> bool:
    try:
        return unseal(row.sealed_login) != entry.login
    except SealError:
        return True


def _set(row: Proxy, entry: Entry, run: int) -> None:
    for name in FIELDS:
        setattr(row, name, getattr(entry, name))
    # Sealed anew each time, so only the text that `key` covers is compared.
    row.sealed_login = entry.sealed_login
    row.named_by = max(row.named_by, run) if run else 0
    row.changed_at = timezone.now()
