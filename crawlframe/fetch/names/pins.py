"""Pins: the addresses of hosts in the form in which libcurl receives them (CURLOPT_RESOLVE). It
then resolves no name itself, and reuses its open connections as ever."""

from __future__ import annotations

from time import monotonic

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.base.urls import host_of
from crawlframe.fetch.names.resolver import MAX_NAMES, HostKnowledge, Names

PIN_SECONDS = 60  # seconds for which libcurl remembers addresses; it keeps 30,000, the newest
REFRESH_SECONDS = 20.0  # seconds after which it receives them again, before it forgets


class Pin:
    """The addresses of host and port of a URL. ``own``: it needs no resolver. ``told``: when
    libcurl received the addresses (time.monotonic())."""

    __slots__ = ("line", "own", "told", "until")

    def __init__(self, known: HostKnowledge, host: str, port: str) -> None:
        self.own = known.own
        self.until = known.until
        self.told = 0.0
        self.line = f"+{host}:{port}:{','.join(known.addresses)}"

    def due(self, always: bool) -> bool:
        """Whether libcurl must receive the addresses; ``always``: even if it did a short time
        ago."""
        return not self.own and (always or self.told + REFRESH_SECONDS < monotonic())


class AddressPins:
    """The pins of one downloader."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self._pins: BoundedDict[str, Pin] = BoundedDict(MAX_NAMES)  # by origin

    def get(self, url: str) -> Pin | None:
        """The pin for a normalised URL, or None if its host must be resolved."""
        pin = self._pins.get(url[: url.find("/", 8)])
        return pin if pin is not None and pin.until > monotonic() else None

    async def find(self, url: str, seconds: float) -> Pin:
        """As ``get``, after ``seconds`` at the latest. Raises Unresolved."""
        host, port = place_of(url)
        known = await self.names.resolve(host, seconds)
        origin = url[: url.find("/", 8)]
        pin = self._pins[origin] = Pin(known, host, port)
        return pin


def place_of(url: str) -> tuple[str, str]:
    """Host and port of a normalised URL."""
    place = host_of(url)
    host, _, port = place.rpartition(":")
    if port.isdigit() and host:
        return host, port
    return place, "443" if url.startswith("https:") else "80"
