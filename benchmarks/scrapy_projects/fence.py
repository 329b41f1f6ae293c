"""A network with nothing but this machine's loopback, where every host name is 127.0.0.1: what runs
in it reaches no public site, whatever it asks for."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import sys

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IResolverSimple
from zope.interface import implementer  # type: ignore[import-untyped]

HERE = "127.0.0.1"
_MARK = "FENCED_BENCHMARK"  # in the environment: the namespace is made
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


def enter(module: str) -> None:
    """Starts ``python -m module`` again in a network namespace of its own (Linux), and returns in
    there. Raises OSError where that is not possible."""
    if _MARK not in os.environ:
        os.environ[_MARK] = "1"
        command = ["unshare", "--map-root-user", "--net", sys.executable, "-m", module]
        os.execvp(command[0], [*command, *sys.argv[1:]])
    with socket.socket() as any_socket:
        name = struct.pack("16sh14x", b"lo", 0)
        _, flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, name))
        up = struct.pack("16sh14x", b"lo", flags | _IFF_UP)
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, up)


async def resolve(host: str) -> tuple[list[str], float]:
    """For CRAWLFRAME_RESOLVER."""
    return [HERE], 3600.0


@implementer(IResolverSimple)
class Resolver:
    """For DNS_RESOLVER of Scrapy."""

    def __init__(self, reactor: object) -> None:
        self._reactor = reactor

    @classmethod
    def from_crawler(cls, crawler: object, reactor: object) -> Resolver:
        return cls(reactor)

    def install_on_reactor(self) -> None:
        self._reactor.installResolver(self)  # type: ignore[attr-defined]

    def getHostByName(self, name: str, timeout: object = ()) -> Deferred[str]:  # noqa: N802
        return succeed(HERE)
