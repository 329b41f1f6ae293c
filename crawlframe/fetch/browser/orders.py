"""Orders: messages between a worker and the browser host of its node, and their framing.

Both run the same version of the code, as the host belongs to the master that forked the worker."""

from __future__ import annotations

import asyncio
import re
import struct
from typing import Any, Generic, TypeVar

import msgspec

from crawlframe.actions import Action
from crawlframe.base.secret import Secret
from crawlframe.proxies.proxy import ChosenProxy
from crawlframe.response.browser_response import Rendered
from crawlframe.response.live_page import Step

MAX_FRAME = 1 << 30  # bytes
_LENGTH = struct.Struct("!I")
_PATTERN = 1  # code of a regular expression in messages


def _packed(value: Any) -> msgspec.msgpack.Ext | str:
    if isinstance(value, re.Pattern):
        return msgspec.msgpack.Ext(_PATTERN, _ENCODER.encode((value.pattern, value.flags)))
    if isinstance(value, Secret):
        return value.reveal()
    raise TypeError(f"{type(value).__name__} is no data")


def _unpacked(code: int, data: memoryview) -> Any:
    if code != _PATTERN:
        raise msgspec.DecodeError(f"an extension of type {code}")
    pattern, flags = msgspec.msgpack.decode(bytes(data))
    return re.compile(pattern, flags)


def _made(kind: type, value: Any) -> Any:
    return Secret(value) if kind is Secret else value


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_packed)

In = TypeVar("In")


class BrowserCookie(msgspec.Struct, frozen=True):
    """A cookie. ``domain`` starts with a dot if it includes its subdomains. ``expires`` is a Unix
    time; -1: with the session."""

    name: str
    value: str
    domain: str
    path: str
    secure: bool
    expires: float = -1


class Profile(msgspec.Struct, frozen=True, array_like=True):
    """The owner of a browser: requests share cookies, storage and cache if all of this is equal.
    ``owner`` is the task, ``cookies`` are the request's own."""

    owner: str
    session: str
    user_agent: str
    upstream: ChosenProxy | None  # behind the host's own proxy
    trackers: bool  # whether they are blocked
    cookies: tuple[tuple[str, str, str], ...] = ()  # URL, name and value


class Order(msgspec.Struct, tag="order"):
    """Worker to host: render this page, as soon as there is room, but do not send it before Go."""

    id: int
    profile: Profile
    url: str
    method: str
    body: bytes | None
    headers: list[tuple[str, str]]  # of the document
    cookies: list[BrowserCookie] | None  # of the task; None: they are neither sent nor kept
    timeout: float  # seconds
    max_body: int  # bytes
    block: list[str]
    settle: float  # seconds
    follow: bool  # redirects lead on; else they are the answer
    actions: list[Action] = []
    picture: bool = False  # one is taken, for the case that the request fails
    hold: float = 0  # seconds for which the page is kept for its callback, until it is cancelled
    fragment: str = ""  # of the URL, with #


class Go(msgspec.Struct, tag="go"):
    """Worker to host: send it now, and be done within that many seconds."""

    id: int
    seconds: float


class Permission(msgspec.Struct, tag="permission"):
    """Worker to host: whether the page may go to the URL it was asked for."""

    id: int
    given: bool


class Cancel(msgspec.Struct, tag="cancel"):
    """Worker to host: the order is not needed any more."""

    id: int


class Command(msgspec.Struct, tag="command"):
    """Worker to host: a call on the kept page. ``steps`` are as in LivePage."""

    id: int
    number: int
    steps: list[Step]


FromWorker = Order | Go | Permission | Cancel | Command


class Ready(msgspec.Struct, tag="ready"):
    """Host to worker: the document of the order can be sent at once."""

    id: int


class MayGo(msgspec.Struct, tag="may go"):
    """Host to worker: the page wants to go to another URL of its host."""

    id: int
    url: str


class Done(msgspec.Struct, tag="done"):
    """Host to worker: the response. ``cookies``: cookies that the page has changed, each with the
    URL that it counts for, in the form of Set-Cookie."""

    id: int
    url: str
    status: int
    headers: list[tuple[str, str]]
    body: bytes
    address: str
    cookies: list[tuple[str, str]]
    rendered: Rendered
    held: bool = False  # the page is kept, and waits for commands


class Failed(msgspec.Struct, tag="failed"):
    """Host to worker: ``kind`` is the name of a class of crawlframe.errors."""

    id: int
    kind: str
    message: str
    picture: bytes = b""  # JPEG of the page then


class CommandReply(msgspec.Struct, tag="reply"):
    """Host to worker: the result of a command; or ``kind``, the name of a class of
    crawlframe.errors. ``url``: of the page, ``cookies``: as in Done."""

    id: int
    number: int
    value: Any = None
    kind: str = ""
    message: str = ""
    url: str = ""
    cookies: list[tuple[str, str]] = []


FromHost = Ready | MayGo | Done | Failed | CommandReply


class Line(Generic[In]):
    """One end of a connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, received: Any
    ) -> None:
        """``received``: the type of the messages of the other end, FromHost or FromWorker."""
        self._reader = reader
        self._writer = writer
        self._decoder: msgspec.msgpack.Decoder[In] = msgspec.msgpack.Decoder(
            received, ext_hook=_unpacked, dec_hook=_made
        )

    async def send(self, message: FromWorker | FromHost) -> None:
        """Raises ConnectionError when the other side has gone; and TypeError, ValueError,
        OverflowError or RecursionError for data that has no form in messages."""
        body = _ENCODER.encode(message)
        try:
            self._writer.write(_LENGTH.pack(len(body)) + body)
            await self._writer.drain()
        except RuntimeError as error:  # uvloop's, for a connection that is closed
            raise ConnectionError(str(error)) from None

    async def receive(self) -> In:
        """Raises ConnectionError at the end, or when it is none of ours."""
        try:
            (size,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            if size > MAX_FRAME:
                raise ConnectionError(f"a message of {size} bytes")
            return self._decoder.decode(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, msgspec.DecodeError) as error:
            raise ConnectionError(str(error)) from None

    def close(self) -> None:
        self._writer.close()
