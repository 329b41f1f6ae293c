"""Dictionaries: what the pages of a host have in common, with which they take less room. The
leading steward makes one for a host whose kept pages shrink by it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from django.db.models import Count, Exists, OuterRef

from crawlframe.pages.packing import MIN_SAMPLES, train
from crawlservice.connections.contained import contained
from crawlservice.models import KeptPage, PageDictionary
from crawlservice.pages.lookup import bodies

READ_AGAIN = 300.0  # seconds after which a worker looks for a newer one of a host
MAX_HOSTS = 2_000  # whose dictionaries a worker holds
SAMPLES = 120  # pages of which one is made and judged
MAX_SAMPLE = 32 << 10  # bytes of one; larger ones are left out
EVERY = 60.0  # seconds between two looks for hosts that lack one
LATEST = 20_000  # kept pages that are looked at


class Dictionaries:
    """Those that a worker packs with."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, tuple[float, tuple[int, bytes] | None]] = {}

    def of(self, hosts: Collection[str]) -> dict[str, tuple[int, bytes] | None]:
        """Number and content of each host's; None where it has none. Raises django.db.Error."""
        now = self._clock()
        asked = [h for h in hosts if h not in self._known or self._known[h][0] < now]
        if asked:
            if len(self._known) + len(asked) > MAX_HOSTS:
                self._known.clear()
                asked = [*hosts]
            rows = PageDictionary.objects.filter(host__in=asked).order_by("pk")
            found = {
                host: (pk, bytes(c)) for pk, host, c in rows.values_list("pk", "host", "content")
            }
            for host in asked:
                self._known[host] = now + READ_AGAIN, found.get(host)
        return {host: self._known[host][1] for host in hosts}


class Trainer:
    """Of the leading steward."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = 0.0
        self._tried: dict[str, int] = {}  # host -> number of its pages then

    def tick(self) -> str:
        """Makes a dictionary for the next host that has enough pages in the database and lacks
        one. Returns the host; "" if there is none. Raises django.db.Error."""
        if self._clock() < self._next:
            return ""
        self._next = self._clock() + EVERY
        newest = KeptPage.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        rows = KeptPage.objects.filter(pk__gt=newest - LATEST, body__segment=None)
        rows = rows.filter(~Exists(PageDictionary.objects.filter(host=OuterRef("host"))))
        hosts = rows.values_list("host").annotate(n=Count("body", distinct=True)).order_by("-n")
        for host, number in hosts.filter(n__gte=MIN_SAMPLES)[:100]:
            # One that did not pay is tried again with many more pages.
            if number >= 4 * self._tried.get(host, 0):
                self._tried[host] = number
                with contained(f"the dictionary of {host}"):
                    self._train(host)
                return str(host)
        return ""

    def _train(self, host: str) -> None:
        rows = KeptPage.objects.filter(host=host, body__segment=None).order_by("-pk")
        small = rows.filter(body__size__lte=MAX_SAMPLE)
        found = bodies({*small.values_list("body", flat=True)[:SAMPLES]})
        if content := train([*found.values()]):
            PageDictionary.objects.create(host=host, content=content)
            self._next = 0.0
