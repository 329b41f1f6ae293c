"""Usage: a page's conditions of use: X-Robots-Tag, meta robots, Content-Signal, Content-Usage,
TDMRep, and licenses of RSL, which are only recorded.

Nothing is parsed for a page without conditions: headers are looked up by name, and a head is
searched for the names of its ``<meta>`` elements first. Where two statements differ, "no" counts;
only statements of TDMRep have an order. Sources: Google's specification of the robots meta tag and
of X-Robots-Tag, contentsignals.org, draft-ietf-aipref-attach-05, and the TDM Reservation Protocol
(W3C CG, 2024)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from html import unescape
from typing import Any, NamedTuple

from multidict import CIMultiDictProxy, istr

from crawlframe.markup.links import targets_of
from crawlframe.robots.signals import NO_SIGNALS, Signals, merge, read_preferences, read_signals
from crawlframe.robots.tdmrep import Reservation

MAX_HEAD = 32 << 10  # bytes at the start of a page that are searched for <meta> elements
MAX_METAS = 200  # elements of a head that are read
MAX_META = 2_000  # bytes of one
MAX_SAID = 20  # statements that are recorded
MAX_STATEMENT = 300  # characters of one that are recorded

# Subjects of a statement. Values in Usage.allows.
INDEX, FOLLOW, TDM = "index", "follow", "tdm"
ABOUT = ("search", "ai-input", "ai-train", TDM, INDEX, FOLLOW)

_TYPE, _ROBOTS, _SIGNAL = istr("Content-Type"), istr("X-Robots-Tag"), istr("Content-Signal")
_RESERVATION, _POLICY = istr("tdm-reservation"), istr("tdm-policy")
_USAGE, _LINK = istr("Content-Usage"), istr("Link")

_DIRECTIVES: dict[str, dict[str, bool]] = {
    "noindex": {INDEX: False},
    "nofollow": {FOLLOW: False},
    "none": {INDEX: False, FOLLOW: False},
    "index": {INDEX: True},
    "follow": {FOLLOW: True},
    "all": {INDEX: True, FOLLOW: True},
    "noai": {"ai-train": False},  # by DeviantArt, 2022; understood by img2dataset and others
}
# Rights to text and data mining are reserved: training and retrieval are such mining.
_RESERVED = {TDM: False, "ai-train": False, "ai-input": False}
_UNTIL = "unavailable_after"
# Directives of the form ``name: value``, which a directive for one crawler has, too.
_VALUED = (_UNTIL, "max-snippet", "max-image-preview", "max-video-preview")
_AGENT = re.compile(r"\s*([A-Za-z0-9_.-]+|\*)\s*:\s*(.*)", re.S)

_HEAD_END = b"</head"
_STARTS = re.compile(rb"<(?:(!--)|(script|style|title)|meta[\s/])", re.I)
_ATTRIBUTE = re.compile(rb"""[\s/]*([^\s"'<>/=]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?""")


class Usage(NamedTuple):
    """A page's conditions of use. ``allows``: a word of ABOUT -> whether the page allows that use;
    unmentioned uses are missing. ``said``: the places and words of the statements."""

    allows: Mapping[str, bool]
    said: tuple[tuple[str, str], ...]

    def denies(self, use: str) -> bool:
        """Whether the page says "no" to something of ABOUT."""
        return self.allows.get(use) is False

    def as_json(self) -> dict[str, Any]:
        """The recorded form: "yes" or "no" for each mentioned use, and ``said``."""
        words = {use: "yes" if allowed else "no" for use, allowed in self.allows.items()}
        return {**words, "said": [[*one] for one in self.said]}


def read_usage(
    headers: CIMultiDictProxy[str],
    body: bytes,
    token: str,
    signals: Signals = NO_SIGNALS,
    reservation: Reservation | None = None,
    now: datetime | None = None,
    licenses: Sequence[str] = (),
) -> Usage | None:
    """Returns a page's conditions for a crawler; None if it has none.

    ``token``: the crawler's product token. ``signals``: of robots.txt for it. ``reservation``: of
    the tdmrep.json. ``now``: for pages that are unavailable after some day. ``licenses``: named by
    robots.txt."""
    metas: Sequence[tuple[str, str]] = ()
    kind = headers.get(_TYPE)
    if kind is None or "html" in kind or "HTML" in kind:
        end = body.find(_HEAD_END, 0, MAX_HEAD)
        if _hint(token).search(body, 0, end if end >= 0 else MAX_HEAD):
            metas = [*_metas(body[: end if end >= 0 else MAX_HEAD])]
    if not (
        metas
        or signals
        or reservation
        or _ROBOTS in headers
        or _SIGNAL in headers
        or _RESERVATION in headers
        or _POLICY in headers
        or _USAGE in headers
        or _LINK in headers
        or licenses
    ):
        return None
    found = _Found(token, now or datetime.now(UTC))
    if signals:
        found.signals("robots.txt", signals)
    if reservation:
        found.reservation(reservation)
    for url in licenses:
        found.say("robots.txt License", url)
    found.headers(headers)
    found.metas(metas)
    return found.usage()


class _Found:
    """Collects statements."""

    def __init__(self, token: str, now: datetime) -> None:
        self._token = token
        self._now = now
        self._allows: dict[str, bool] = {}
        self._said: list[tuple[str, str]] = []
        self._reserved: bool | None = None  # by TDMRep

    def usage(self) -> Usage | None:
        if self._reserved is not None:
            merge(self._allows, _RESERVED if self._reserved else {TDM: True})
        return Usage(self._allows, tuple(self._said)) if self._said else None

    def headers(self, headers: CIMultiDictProxy[str]) -> None:
        for value in headers.getall(_ROBOTS, ()):
            self._directives("X-Robots-Tag", _addressed(value, self._token))
        for value in headers.getall(_SIGNAL, ()):
            self.signals("Content-Signal", read_signals(value))
        self.signals("Content-Usage", read_preferences(", ".join(headers.getall(_USAGE, ()))))
        with suppress(ValueError):  # elements that were read before count
            for target, _ in targets_of(headers.getall(_LINK, ()), "license"):
                self.say("Link license", target)
        self._reserve("tdm-reservation", headers.getall(_RESERVATION, ()))
        for value in headers.getall(_POLICY, ()):
            self.say("tdm-policy", value)

    def metas(self, metas: Sequence[tuple[str, str]]) -> None:
        for name, content in metas:
            if name in ("robots", self._token):
                self._directives(f"meta {name}", _split(content))
            elif name == "tdm-policy":
                self.say(f"meta {name}", content)
        values = [content for name, content in metas if name == "tdm-reservation"]
        self._reserve("meta tdm-reservation", values)

    def signals(self, source: str, signals: Signals) -> None:
        if signals:
            merge(self._allows, signals)
            words = (f"{use}={'yes' if yes else 'no'}" for use, yes in signals.items())
            self.say(source, ", ".join(words))

    def reservation(self, reservation: Reservation) -> None:
        self._reserve("tdmrep.json", ["1" if reservation.reserved else "0"])
        self.say("tdmrep.json policy", reservation.policy)

    def _directives(self, source: str, directives: list[str]) -> None:
        for directive in directives:
            merge(self._allows, _DIRECTIVES.get(directive, {}))
            name, _, value = directive.partition(":")
            if name.strip() == _UNTIL and _is_over(value.strip(), self._now):
                merge(self._allows, {INDEX: False})
        self.say(source, ", ".join(directives))

    def _reserve(self, source: str, values: Sequence[str]) -> None:
        """Replaces statements of less specific sources (TDMRep, Processing priority)."""
        valid = [value for value in map(str.strip, values) if value in ("0", "1")]
        if valid:
            self._reserved = "1" in valid
            self.say(source, max(valid))

    def say(self, source: str, text: str) -> None:
        text = " ".join(text.replace("\0", " ").split())
        if text and len(self._said) < MAX_SAID:
            plain = text[:MAX_STATEMENT].encode("utf-8", "replace").decode()  # a header is no text
            self._said.append((source, plain))


def _addressed(value: str, token: str) -> list[str]:
    """The directives of one X-Robots-Tag that are for all crawlers, or for this one. A name counts
    up to the next one, also where a proxy has joined several headers."""
    ours, mine = [], True
    for directive in _split(value):
        found = _AGENT.match(directive)
        if found and found[1] not in _VALUED:
            mine = found[1] in ("*", token)
            directive = found[2]
        if mine and directive:
            ours.append(directive)
    return ours


def _split(text: str) -> list[str]:
    """Directives in lower case. The commas of a date do not separate."""
    parts: list[str] = []
    for part in text.lower().split(","):
        part = part.strip()
        if parts and part[:1].isdigit() and _UNTIL in parts[-1]:
            parts[-1] += f", {part}"
        elif part:
            parts.append(part)
    return parts


def _is_over(date: str, now: datetime) -> bool:
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(date.upper())
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) < now
    return False


@lru_cache(maxsize=256)
def _hint(token: str) -> re.Pattern[bytes]:
    """Pattern for a head that has one of the names as an attribute. The form matters: it takes half
    the time of an alternation after the sign."""
    names = ["robots", "tdm-", *([token] if token != "*" else [])]
    first = "".join(name[0] + name[0].upper() for name in names)
    rest = "|".join(re.escape(name[1:]) for name in names)
    return re.compile(f"=[\"' ]{{0,2}}[{re.escape(first)}](?i:{rest})".encode())


def _metas(head: bytes) -> Iterator[tuple[str, str]]:
    """Names, in lower case, and contents of the ``<meta>`` elements of a head."""
    at = left = 0
    while left < MAX_METAS and (start := _STARTS.search(head, at)):
        if start[1] or start[2]:
            end = head.find(b"-->", start.end() - 2) if start[1] else _end_tag(head, start)
            if end < 0:
                return
            at = end + 1
            continue
        left += 1
        at = start.end() - 1
        tag = head[at : at + MAX_META]
        attributes: dict[bytes, bytes] = {}
        place = 0
        while found := _ATTRIBUTE.match(tag, place):
            attributes.setdefault(found[1].lower(), found[2] or found[3] or found[4] or b"")
            place = found.end()
        at += place
        name = _text(attributes.get(b"name", b"")).strip().lower()
        if name and b"content" in attributes:
            yield name, _text(attributes[b"content"])


def _end_tag(head: bytes, start: re.Match[bytes]) -> int:
    """The end of the element whose content is no markup; -1 if there is none."""
    end = re.compile(rb"</%s" % start[2], re.I).search(head, start.end())
    return end.start() if end else -1


def _text(value: bytes) -> str:
    return unescape(value.decode("utf-8", "replace"))
