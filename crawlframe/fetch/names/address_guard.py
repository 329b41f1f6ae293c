"""AddressGuard: the IP addresses to which a crawl may connect. Both downloaders check the resolved
address of each new connection, so no host name can bypass it."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from functools import lru_cache

from crawlframe.conf import Network
from crawlframe.errors import PrivateAddress

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# Forms that contain an IPv4 address, or may: no public host has one, and their translation depends
# on the network of the node. Refused unless their own network is allowed.
_REFUSED = tuple(
    ipaddress.IPv6Network(network)
    for network in (
        "::/96",  # IPv4-compatible, deprecated by RFC 4291
        "::ffff:0:0:0/96",  # IPv4-translated (SIIT), RFC 2765
        "64:ff9b:1::/48",  # local-use NAT64, RFC 8215: any prefix length may be used in it
    )
)


class AddressGuard:
    """Allows public addresses and the networks of ``allow``."""

    def __init__(self, allow: Iterable[Network] = ()) -> None:
        self._allow = tuple(allow)
        self.allows = lru_cache(maxsize=4096)(self._allows)

    def allowed(self, addresses: Sequence[str], where: str = "") -> list[str]:
        """Those of the addresses to which connections may be made. ``where``: the URL, for
        messages. Raises PrivateAddress if there are none."""
        found = [address for address in addresses if self.allows(address)]
        if not found:
            raise PrivateAddress.of(addresses[0], where)
        return found

    def _allows(self, address: str) -> bool:
        try:
            ip = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        for form in (ip, _embedded(ip)):
            if form is not None and any(form in network for network in self._allow):
                return True
        ip = _embedded(ip) or ip
        if isinstance(ip, ipaddress.IPv6Address) and (
            ip.is_site_local or any(ip in network for network in _REFUSED)
        ):
            return False
        return ip.is_global and not ip.is_multicast


def _embedded(
    ip: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | None:
    """The IPv4 address to which packets to this IPv6 address are really sent."""
    if isinstance(ip, ipaddress.IPv4Address):
        return None
    if ip in _NAT64:
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
