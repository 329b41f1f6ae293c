"""Addresses: at which addresses hosts are, for spiders that limit the requests to one address."""

from __future__ import annotations

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.base.urls import host_of
from crawlframe.fetch.downloader import Downloader
from crawlframe.frontier.client.records import Signal
from crawlframe.node.worker.crawl.stage import ClaimedFetch, Next, NoResponse
from crawlframe.response.response import Response
from crawlframe.run.outcome import Verdict

MAX_HOSTS = 10_000  # whose addresses are remembered
UNRESOLVED = "unresolved"  # in place of an address: all such names share its limits


class Addresses:
    """The addresses of hosts, for one worker."""

    def __init__(self, downloader: Downloader) -> None:
        self._downloader = downloader
        self._reported: BoundedDict[str, str] = BoundedDict(MAX_HOSTS)  # host -> address

    async def fetch(self, fetch: ClaimedFetch, call_next: Next[ClaimedFetch]) -> Response:
        """A stage: the page's report about its host has the host's address if that is new."""
        response = await call_next(fetch)
        address = self._new_of(fetch.claimed.host, response)
        fetch.signal = fetch.signal._replace(address=address)
        return response

    async def tell(self, fetch: ClaimedFetch) -> Response:
        """Returns the request, with the address of its host, in place of a fetch. Raises
        NoResponse."""
        outcome = fetch.outcome
        url = fetch.url if outcome.side_trip is None else outcome.side_trip.url
        address = await self._downloader.address_of(url) or UNRESOLVED
        outcome.fetch.signal = Signal(address=address)
        outcome.end(Verdict.RELEASE, "address", f"{outcome.host} is at {address}")
        raise NoResponse

    def _new_of(self, host: str, response: Response) -> str:
        """The address of the host, if it differs from the last reported one."""
        address = response.address
        if self._reported.get(host, "") == address or host_of(response.url) != host:
            return ""
        self._reported[host] = address
        return address
