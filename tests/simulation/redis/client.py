"""Clients of redis-py that reach a store without a network."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from redis import Redis
from redis._parsers.base import BaseParser
from redis.backoff import NoBackoff
from redis.connection import ConnectionPool
from redis.exceptions import ConnectionError, ReadOnlyError, TimeoutError
from redis.retry import Retry

from tests.simulation.redis.store import Reply, Store
from tests.simulation.redis.values import ReplyError

Command = tuple[Any, ...]


class Link:
    """Path of a client's commands to a store. A simulation overrides the methods: each may raise
    redis.ConnectionError or redis.TimeoutError."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def connect(self) -> None:
        """Called when a connection is made."""

    def deliver(self, command: Command) -> Reply:
        """The reply to a command, which may be a ReplyError."""
        try:
            return self.store.execute(command)
        except ReplyError as error:
            return error


class Connection:
    """Connection whose replies are there as soon as its commands were sent. It speaks RESP2."""

    protocol = 2
    host, port, db = "simulation", 6379, 0

    def __init__(self, link: Link, retry: Retry | None = None, **_options: Any) -> None:
        self._link = link
        self.retry = retry or Retry(NoBackoff(), 0)
        self.is_open = False
        self._queued: list[Command] | None = None  # commands of a MULTI
        self._replies: deque[Reply] = deque()

    def connect(self) -> None:
        if not self.is_open:
            self._link.connect()
            self.is_open = True

    def disconnect(self, *_args: Any, **_options: Any) -> None:
        self.is_open, self._queued = False, None
        self._replies.clear()

    def should_reconnect(self) -> bool:
        return False

    def pack_commands(self, commands: Iterable[Command]) -> list[Command]:
        return [*commands]

    def send_command(self, *args: Any, **_options: Any) -> None:
        self.send_packed_command([args])

    def send_packed_command(self, command: Iterable[Command], check_health: bool = True) -> None:
        self.connect()
        try:
            for one in command:
                self._replies.append(self._send(one))
        except (ConnectionError, TimeoutError) as error:  # found by the reader, as with a socket
            self._replies.append(error)

    def _send(self, command: Command) -> Reply:
        if " " in command[0]:  # such as "SCRIPT LOAD"
            command = (*command[0].split(), *command[1:])
        if command[0] == "MULTI":
            self._queued = []
            return b"OK"
        if self._queued is None:
            return self._link.deliver(command)
        if command[0] != "EXEC":
            self._queued.append(command)
            return b"QUEUED"
        queued, self._queued = self._queued, None
        replies = self._link.deliver(("EXEC", *queued))
        return [*map(parsed, replies)] if isinstance(replies, list) else replies

    def read_response(self, *_args: Any, **_options: Any) -> Reply:
        if not self._replies:
            self.disconnect()
            raise ConnectionError("Connection closed by server.")
        reply = parsed(self._replies.popleft())
        if isinstance(reply, ConnectionError | TimeoutError):
            self.disconnect()
        if isinstance(reply, Exception):
            raise reply
        return reply


class Pool(ConnectionPool):
    """Connections of one client, without the checks and measurements of redis-py's own pool."""

    def __init__(self, link: Link, **options: Any) -> None:
        kind: Any = Connection  # as far as clients use one
        super().__init__(kind, link=link, protocol=Connection.protocol, **options)
        self._idle: list[Connection] = []
        self._made: list[Connection] = []

    def get_connection(self, command_name: Any = None, *keys: Any, **options: Any) -> Any:
        if not self._idle:
            self._made.append(Connection(**self.connection_kwargs))
            self._idle.append(self._made[-1])
        connection = self._idle.pop()
        try:
            connection.connect()
        except BaseException:
            self.release(connection)
            raise
        return connection

    def release(self, connection: Any) -> None:
        self._idle.append(connection)

    def disconnect(self, inuse_connections: bool = True) -> None:
        for connection in self._made if inuse_connections else self._idle:
            connection.disconnect()


def parsed(reply: Reply) -> Reply:
    """A reply, or the exception of redis-py for an error."""
    return BaseParser.parse_error(str(reply)) if isinstance(reply, ReplyError) else reply


def client(link: Link) -> Redis:
    """A client as ``crawlframe.frontier.client.connection`` makes them."""
    retry = Retry(NoBackoff(), 1, (ReadOnlyError,))
    return Redis(connection_pool=Pool(link, retry=retry))
