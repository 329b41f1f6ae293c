"""The contract of plug-in downloaders: their arguments for a transfer, and their results.

A package names its own by an entry point of the group ``crawlframe.downloaders``: a class, or a
function, that is called with the number of transfers that a worker makes at a time, and returns a
PlugInDownloader. Spiders and requests name it: ``downloader = "name"``.
`crawlframe.testing.downloader_contract` has tests that each one must pass."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from multidict import CIMultiDict

__all__ = ["PlugInDownloader", "Reply", "Transfer"]


class Reply(NamedTuple):
    """A response, as ``Transfer.receive`` makes it. ``body``: as sent; None if it is too large;
    empty if it is saved as a file."""

    status: int
    headers: CIMultiDict[str]
    body: bytes | None
    address: str = ""


class Transfer(Protocol):
    """One request to make, and its response to receive. ``headers`` are all that are sent, Cookie
    included, besides headers of the transfer itself (Host, Content-Length, Connection). ``proxy``
    is the URL of the proxy that it must go through, with its credentials, which no message may
    show; None: no proxy. Times are in seconds: ``connect`` to open a connection, including the TLS
    handshake, and ``stall`` without progress. The time for all of it is watched by the framework,
    which cancels the fetch. ``where`` is the URL for messages of errors."""

    url: str
    method: str
    headers: Sequence[tuple[str, str]]
    body: bytes | None
    proxy: str | None
    connect: float
    stall: float
    where: str

    async def addresses(self) -> Sequence[str]:
        """The IP addresses of the host of ``url`` that may be connected to, at least one. The
        downloader connects to one of them, and resolves no name itself; with a socks5 proxy it
        gives the proxy one of them. None where the proxy resolves the name. Raises DnsError, and
        PrivateAddress if none of them is allowed."""

    async def proxy_addresses(self) -> Sequence[str]:
        """The IP addresses of the proxy that may be connected to, at least one; empty without a
        proxy. Raises ProxyFailed."""

    def sent(self) -> None:
        """To be called when the request goes out on a connection that is ready, tunnel and TLS
        handshake included: the delay of the host counts from then. If it is not called, the delay
        counts from the call of ``receive``, so that it is never shorter than it should be."""

    async def receive(
        self,
        status: int,
        headers: Mapping[str, str] | Iterable[tuple[str, str]],
        chunks: AsyncIterable[bytes],
        address: str = "",
    ) -> Reply:
        """Receives the response, for ``fetch`` to return. ``headers`` may have a name several
        times. ``chunks`` are the body without its transfer coding, and with its content coding. It
        is not read to its end if it is larger than allowed. ``address`` is the IP address that it
        came from, "" if that is not known. Raises FetchError for a response that must not be
        received, and errors of ``chunks``; the downloader then closes the connection."""


class PlugInDownloader(Protocol):
    """Makes transfers, many at a time, in the event loop of its first fetch.

    A downloader that can use proxies has an attribute ``proxy_schemes``: which of ``http``,
    ``https``, ``socks5`` (the host's address is resolved here) and ``socks5h`` (there). A request
    with another proxy fails without being sent."""

    async def fetch(self, transfer: Transfer) -> Reply:
        """Makes one transfer: returns the Reply of ``transfer.receive``, whatever the status is.
        Follows no redirects, keeps no cookies, adds no headers, undoes no content coding, sends no
        request again that may have arrived, uses no proxy of the environment, and verifies
        certificates. May be cancelled at any moment.

        Raises ConnectError, TlsError, ConnectionLost (also for a body that ends too early),
        FetchTimeout and BadResponse; for failures of the proxy itself ProxyFailed (it cannot be
        reached, or closes the connection), ProxyAuth (407), and ProxyUnreaching (it makes no
        tunnel). Any other error ends the request as the error ``downloader``."""

    async def close(self) -> None:
        """Closes all connections."""
