"""NameServers: asks the name servers of this machine, with c-ares. Any number of questions wait at
once, so a server that does not reply holds up no other name."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import NamedTuple

import aiodns
import pycares

GONE_SECONDS = 60.0  # seconds for which a name that does not exist is not asked for again
# c-ares waits for a server five times as long as that takes on average, at least 0.25 s, then twice
# as long on each try: 8 s at the least, because a server must often ask others itself.
TRIES = 5
FAILURE_SECONDS = 5.0  # seconds for which a failure of name servers is remembered

# Search domains are off: they multiply the questions, and let a name mean different hosts on
# different nodes.
_FLAGS = pycares.ARES_FLAG_NOSEARCH | pycares.ARES_FLAG_NOALIASES | pycares.ARES_FLAG_EDNS

_PROBLEMS = {
    "ARES_ENOTFOUND": "there is no such name (NXDOMAIN)",
    "ARES_ENODATA": "the name has no address",
    "ARES_ESERVFAIL": "its name servers fail (SERVFAIL)",
    "ARES_EREFUSED": "the name server refuses to say (REFUSED)",
    "ARES_ECONNREFUSED": "no name server can be reached",
    "ARES_ETIMEOUT": "no name server replied in time",
    "ARES_EBADNAME": "this is not a valid name",
    "ARES_EBADRESP": "the reply of the name server is invalid",
    "ARES_EFORMERR": "the name server does not understand the question (FORMERR)",
    "ARES_ENOTIMP": "the name server does not support the question (NOTIMP)",
}
_LASTING = ("ARES_ENOTFOUND", "ARES_ENODATA", "ARES_EBADNAME")


class HostAddresses(NamedTuple):
    """IPv6 and IPv4 addresses, the preferred one first, and how long they hold, in seconds."""

    addresses: tuple[str, ...]
    ttl: float


class Unresolved(OSError):
    """A host name without an address; the text names the host. ``keep``: seconds for which it need
    not be asked for again."""

    def __init__(self, text: str, keep: float = FAILURE_SECONDS) -> None:
        super().__init__(text)
        self.keep = keep


class NameServers:
    """The name servers of /etc/resolv.conf, after /etc/hosts; ``servers`` (``address`` or
    ``address:port``) replaces them. Belongs to the running event loop and this process."""

    def __init__(self, servers: Sequence[str] = ()) -> None:
        self._resolver = aiodns.DNSResolver(
            servers or None, asyncio.get_running_loop(), flags=_FLAGS, tries=TRIES
        )

    async def addresses_of(self, host: str) -> HostAddresses:
        """Raises Unresolved."""
        try:
            result = await self._resolver.getaddrinfo(host, type=socket.SOCK_STREAM)
        except aiodns.error.DNSError as error:
            code = pycares.errno.errorcode.get(error.args[0], str(error.args[0]))
            text = _PROBLEMS.get(code, f"{error.args[-1]} ({code})")
            raise Unresolved(
                f"{host}: {text}", GONE_SECONDS if code in _LASTING else FAILURE_SECONDS
            ) from None
        addresses = dict.fromkeys(node.addr[0].decode() for node in result.nodes)
        ttl = min([node.ttl for node in result.nodes] + [name.ttl for name in result.cnames])
        return HostAddresses(tuple(addresses), ttl)

    async def close(self) -> None:
        """Ends all questions."""
        await self._resolver.close()
