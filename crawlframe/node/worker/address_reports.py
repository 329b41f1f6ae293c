"""AddressReports: at which addresses hosts are, as far as they were reported."""

from __future__ import annotations

from crawlframe.bounded_dict import BoundedDict
from crawlframe.fetch.downloader import Downloader
from crawlframe.frontier.records import Signal
from crawlframe.links import host_of
from crawlframe.outcome import Outcome, Verdict
from crawlframe.response import Response

MAX_HOSTS = 10_000  # whose addresses are remembered
UNRESOLVED = "unresolved"  # in place of an address: all such names share its limits


class AddressReports:
    """Of one worker."""

    def __init__(self, downloader: Downloader) -> None:
        self._downloader = downloader
        self._reported: BoundedDict[str, str] = BoundedDict(MAX_HOSTS)  # host -> address

    async def tell(self, outcome: Outcome, url: str) -> None:
        """The request goes back, with the address of its host."""
        address = await self._downloader.address_of(url) or UNRESOLVED
        outcome.signal = Signal(address=address)
        outcome.end(Verdict.RELEASE, "address", f"{outcome.host} is at {address}")

    def new_of(self, host: str, response: Response) -> str:
        """The address of the host, if it is not the one that was reported last."""
        address = response.address
        if self._reported.get(host, "") == address or host_of(response.url) != host:
            return ""
        self._reported[host] = address
        return address
