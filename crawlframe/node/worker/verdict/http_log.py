"""Exchange: the headers of the last transfer of a request that ended in error, as they are
recorded: without secrets, and not many."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from crawlframe.base.secret import COOKIES, LOGINS, MASK, MIN_CHARS, TELLING, secret_texts
from crawlframe.errors import FetchError
from crawlframe.items.encode import clean_text
from crawlframe.response.response import Response


class Limits(NamedTuple):
    """Limits of the recorded headers in each direction. ``value`` and ``all``: characters."""

    headers: int
    value: int
    all: int


BRIEF = Limits(60, 500, 8_000)  # to be looked at
FULL = Limits(500, 16_000, 128_000)  # to make the response again

PAIR = re.compile(r"^(\s*[^=;\s]+=)([^;]*)")

Headers = Iterable[tuple[str, str]]


def exchange_of(got: Response | FetchError, arguments: Any) -> dict[str, Any] | None:
    """Returns an exchange in its stored form; None if nothing was sent. ``arguments``: of the task;
    its Secrets are masked wherever they occur."""
    response = got.response if isinstance(got, FetchError) else got
    sent = (response.sent if response is not None else None) or getattr(got, "sent", None)
    if sent is None and response is None:
        return None
    known = sorted(secret_texts(arguments), key=len, reverse=True)
    recorded: dict[str, Any] = {}
    if sent is not None:
        method, url, headers = sent
        known = [*known, *_hidden(headers)]
        recorded |= {"method": method, "url": _clean(url, known), "sent": _listed(headers, known)}
    if response is not None:
        received = _listed(response.headers.items(), known)
        recorded |= {"status": response.status, "received": received}
    return recorded


def headers_of(response: Response, arguments: Any) -> dict[str, Any]:
    """The headers that were sent and received for a response, without secrets. The rest as in
    ``exchange_of``."""
    known = sorted(secret_texts(arguments), key=len, reverse=True) if arguments else []
    recorded: dict[str, Any] = {}
    if response.sent is not None:
        sent = tuple(response.sent[2])
        hidden, listed = _of_sent(sent)
        known += hidden
        recorded["sent"] = _listed(sent, known, FULL) if known else listed
    recorded["received"] = _listed(response.headers.items(), known, FULL)
    return recorded


@lru_cache(maxsize=256)
def _of_sent(headers: tuple[tuple[str, str], ...]) -> tuple[list[str], list[list[str]]]:
    """Returns the hidden values of headers, and their list if none is hidden. Cached, since most
    requests to a host send the same headers."""
    return [*_hidden(headers)], _listed(headers, [], FULL)


def _listed(headers: Headers, known: list[str], limits: Limits = BRIEF) -> list[list[str]]:
    listed: list[list[str]] = []
    left = limits.all
    for name, value in headers:
        if len(listed) == limits.headers or left <= 0:
            listed.append(["…", ""])
            break
        if _tells(name):
            value = _masked(name.lower(), value)
        if known or not (name.isascii() and value.isascii() and value.isprintable()):
            name, value = _clean(name, known, limits.value), _clean(value, known, limits.value)
        elif len(value) > limits.value or len(name) > limits.value:
            name, value = _shortened(name, limits.value), _shortened(value, limits.value)
        left -= len(name) + len(value)
        listed.append([name, value])
    return listed


@lru_cache(maxsize=1024)
def _tells(name: str) -> bool:
    """Whether the value of a header of this name is a credential."""
    name = name.lower()
    return name in LOGINS or name in COOKIES or TELLING.search(name) is not None


def _masked(name: str, value: str) -> str:
    if name in LOGINS:
        scheme, space, _ = value.partition(" ")
        return f"{scheme} {MASK}" if space else MASK
    if name == "cookie":
        return "; ".join(_cookie(pair.strip()) for pair in value.split(";"))
    return _cookie(value) if name in COOKIES else MASK


def _cookie(text: str) -> str:
    """A cookie with its name and attributes."""
    found = PAIR.match(text)
    return found[1] + MASK + text[found.end() :] if found else MASK


def _hidden(headers: Headers) -> Iterator[str]:
    """Values that are masked in sent headers, and that the server may repeat."""
    for name, value in headers:
        if name.lower() in LOGINS:
            value = value.rpartition(" ")[2]
            yield from _passwords(value)
        elif not _tells(name) or name.lower() in COOKIES:
            continue
        if len(value) >= MIN_CHARS:
            yield value


def _passwords(login: str) -> Iterator[str]:
    """The password of a Basic login."""
    try:
        password = b64decode(login, validate=True).decode().partition(":")[2]
    except ValueError:
        return
    if len(password) >= MIN_CHARS:
        yield password


def _clean(text: str, known: list[str], limit: int = BRIEF.value) -> str:
    for secret in known:  # first: a cut one would not be found
        text = text.replace(secret, MASK)
    return _shortened(clean_text(text), limit)


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
