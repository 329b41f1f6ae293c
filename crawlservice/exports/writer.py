"""Writer: sends batches to one target."""

from __future__ import annotations

import importlib.util
import socket
from typing import NamedTuple, Protocol

from django.conf import settings

from crawlframe.errors import CrawlframeError
from crawlframe.fetch.names.address_guard import AddressGuard
from crawlservice.exports.batch import ExportBatch, Limits


class TargetError(CrawlframeError):
    """The target did not take a batch."""


class BatchName(NamedTuple):
    """The same for every attempt to send a batch, and for no other batch. ``number`` is the id of
    the export, since its name may have been that of a deleted one; ``run`` counts how often it was
    started again. ``first`` and ``last`` are the row numbers that the batch covers, whether or not
    there still are rows of these numbers."""

    export: str
    number: int
    run: int
    first: int
    last: int

    @property
    def producer(self) -> str:
        """The same for all batches of the export."""
        return f"{self.export}.{self.number}"

    @property
    def series(self) -> str:
        """The same for all batches of the run."""
        return f"{self.producer}.{self.run}"

    def __str__(self) -> str:
        return f"{self.series}.{self.first:012d}-{self.last:012d}"


class Writer(Protocol):
    """``limits``: of its batches."""

    limits: Limits

    def send(self, name: BatchName, batch: ExportBatch) -> str:
        """Sends all of it or nothing, and may be called again for the same one. Returns where it
        is, to be shown. Raises TargetError and whatever its library raises."""

    def test(self, name: BatchName, empty: ExportBatch) -> None:
        """Raises as ``send`` does if the target cannot be reached and written. Leaves no row."""

    def close(self) -> None:
        """Lets go of connections. Never raises."""


def address_of(host: str | None) -> str:
    """An IP address of the host of a target, to connect to. Raises TargetError if it has one that
    is neither public nor in a network that CRAWLFRAME_WEBHOOK_PRIVATE names."""
    node = settings.CRAWLFRAME
    guard = AddressGuard((*node.allow_private, *node.webhook_private))
    try:
        found = [info[4][0] for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError) as error:
        raise TargetError(f"{host} has no address: {error}") from None
    if not host or not all(map(guard.allows, map(str, found))):
        raise TargetError(
            f"the address of {host} is not public; if it may be sent to, name its network in "
            "CRAWLFRAME_WEBHOOK_PRIVATE"
        )
    return str(found[0])


def need(module: str, extra: str) -> None:
    """Raises TargetError if an optional dependency is not installed."""
    if importlib.util.find_spec(module) is None:
        raise TargetError(
            f"this target needs {module}, which is not installed; run on all nodes: "
            f"pip install 'crawlframe[{extra}]'"
        )
