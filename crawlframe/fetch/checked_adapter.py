"""CheckedAdapter: requests' way to the network, shared by all sessions of a downloader. It asks the
AddressGuard about each connection, and tells the transfer of its thread which socket serves it."""

from __future__ import annotations

import socket
import threading
from typing import Any, Protocol

import urllib3.connection
import urllib3.connectionpool
from requests.adapters import HTTPAdapter

from crawlframe.errors import PrivateAddress
from crawlframe.fetch.addresses import AddressGuard


class Transfer(Protocol):
    """One request and its answer, in one thread."""

    where: str  # for messages

    def attach(self, sock: socket.socket | None) -> None:
        """From now on ``sock`` serves it."""

    def detach(self) -> None:
        """Its socket may serve others from now on."""


class _OnDuty(threading.local):
    transfer: Transfer | None = None


on_duty = _OnDuty()  # the transfer of this thread


class CheckedAdapter(HTTPAdapter):
    """Raises PrivateAddress before anything is sent to an address that ``guard`` refuses."""

    def __init__(self, guard: AddressGuard, concurrency: int) -> None:
        self._guard = guard
        super().__init__(pool_connections=concurrency, pool_maxsize=concurrency)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _pools(self._guard)

    def close(self) -> None:
        """Nothing: sessions come and go."""

    def close_connections(self) -> None:
        super().close()


def _pools(guard: AddressGuard) -> dict[str, type[urllib3.connectionpool.HTTPConnectionPool]]:
    class Checked:
        """Mixed into urllib3's connections."""

        def _new_conn(self) -> socket.socket:
            sock: socket.socket = super()._new_conn()  # type: ignore[misc]
            peer = sock.getpeername()[0]
            if not guard.allows(peer):
                sock.close()
                where = f"{on_duty.transfer.where}: " if on_duty.transfer is not None else ""
                raise PrivateAddress(
                    f"{where}{peer} is no public address; to crawl it, allow its network in "
                    "CRAWLFRAME_ALLOW_PRIVATE"
                )
            return sock

        def connect(self) -> None:
            super().connect()  # type: ignore[misc]
            _attach(self)

        def request(self, *args: Any, **kwargs: Any) -> None:
            _attach(self)  # an open one does not connect again
            super().request(*args, **kwargs)  # type: ignore[misc]

    class Connection(Checked, urllib3.connection.HTTPConnection):
        pass

    class TlsConnection(Checked, urllib3.connection.HTTPSConnection):
        pass

    class Detaching:
        """Mixed into urllib3's pools."""

        def _put_conn(self, conn: Any) -> None:
            if on_duty.transfer is not None:
                on_duty.transfer.detach()
            super()._put_conn(conn)  # type: ignore[misc]

    class Pool(Detaching, urllib3.connectionpool.HTTPConnectionPool):
        ConnectionCls = Connection

    class TlsPool(Detaching, urllib3.connectionpool.HTTPSConnectionPool):
        ConnectionCls = TlsConnection

    return {"http": Pool, "https": TlsPool}


def _attach(connection: Any) -> None:
    if on_duty.transfer is not None:
        on_duty.transfer.attach(connection.sock)
