"""Exchange: the headers of the last transfer of a request that ended in error, as they are
recorded: without secrets, and not many."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator
from typing import Any

from crawlframe.errors import FetchError
from crawlframe.items import clean_text
from crawlframe.response import Response
from crawlframe.secret import MASK, SHORTEST, secret_texts

MAX_HEADERS = 60  # in each direction
MAX_VALUE = 500  # characters
MAX_ALL = 8_000  # characters in each direction

COOKIES = ("cookie", "set-cookie", "set-cookie2")
LOGINS = ("authorization", "proxy-authorization")
# Other names whose values let somebody in.
TELLING = re.compile(r"auth|token|secret|passw|credential|session|csrf|xsrf|api-?key|(^|-)key$")
PAIR = re.compile(r"^(\s*[^=;\s]+=)([^;]*)")

Headers = Iterable[tuple[str, str]]


def exchange_of(got: Response | FetchError, arguments: Any) -> dict[str, Any] | None:
    """What was sent and received, in the form in which it is stored; None if nothing was sent.
    ``arguments``: those of the task, whose Secrets are masked wherever they occur."""
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


def _listed(headers: Headers, known: list[str]) -> list[list[str]]:
    listed: list[list[str]] = []
    left = MAX_ALL
    for name, value in headers:
        if len(listed) == MAX_HEADERS or left <= 0:
            listed.append(["…", ""])
            break
        shown = [_clean(name, known), _clean(_masked(name.lower(), value), known)]
        left -= sum(map(len, shown))
        listed.append(shown)
    return listed


def _masked(name: str, value: str) -> str:
    if name in LOGINS:
        scheme, space, _ = value.partition(" ")
        return f"{scheme} {MASK}" if space else MASK
    if name == "cookie":
        return "; ".join(_cookie(pair.strip()) for pair in value.split(";"))
    if name in COOKIES:
        return _cookie(value)
    return MASK if TELLING.search(name) else value


def _cookie(text: str) -> str:
    """A cookie with its name and attributes."""
    found = PAIR.match(text)
    return found[1] + MASK + text[found.end() :] if found else MASK


def _hidden(headers: Headers) -> Iterator[str]:
    """Values that are masked in what was sent, and that the server may repeat."""
    for name, value in headers:
        if name.lower() in LOGINS:
            value = value.rpartition(" ")[2]
            yield from _passwords(value)
        elif not TELLING.search(name.lower()):
            continue
        if len(value) >= SHORTEST:
            yield value


def _passwords(login: str) -> Iterator[str]:
    """The password of a Basic login."""
    try:
        password = b64decode(login, validate=True).decode().partition(":")[2]
    except ValueError:
        return
    if len(password) >= SHORTEST:
        yield password


def _clean(text: str, known: list[str]) -> str:
    for secret in known:  # first: a cut one would not be found
        text = text.replace(secret, MASK)
    text = clean_text(text)
    return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 1]}…"
