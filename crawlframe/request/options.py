"""Options: the settings of one request that differ from its spider's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from crawlframe.actions import Action, check_actions
from crawlframe.base.media_type import PATTERN
from crawlframe.errors import BadRequest, MissingCode
from crawlframe.proxies.selector import parse_selector

MAX_TIMEOUT = 86_400  # seconds

_SESSION = re.compile(r"[\w.-]{1,100}")


class Options(NamedTuple):
    """The options of one request; None means the spider's setting. ``timeout`` is in seconds, of
    each redirect too; ``retries`` are further attempts. ``redirects`` is how many are followed;
    with 0 the redirecting response goes to the callback. ``handle`` are the statuses besides 2xx
    for which the callback is called. ``session`` is the name of the cookie jar within the task.
    ``max_body`` is in bytes, also after decompression. ``save``: the body goes into the file store;
    True, or the media types that do. ``proxy`` is as ``parse_selector`` has it. ``actions`` are
    done in a browser."""

    timeout: float | None = None
    retries: int | None = None
    redirects: int | None = None
    handle: tuple[range, ...] | None = None
    session: str | None = None
    max_body: int | None = None
    save: Literal[True] | tuple[str, ...] | None = None
    proxy: str | None = None
    actions: tuple[Action, ...] | None = None

    def handles(self, status: int) -> bool | None:
        """Whether the callback is called for this status; None: the settings decide."""
        if self.redirects == 0 and 300 <= status < 400:
            return True
        return None if self.handle is None else any(status in part for part in self.handle)

    def encode(self) -> dict[str, Any]:
        """The options that are set, as stored in a record."""
        given = {name: value for name, value in self._asdict().items() if value is not None}
        if self.handle is not None:
            given["handle"] = [[part.start, part.stop] for part in self.handle]
        if self.actions is not None:
            given["actions"] = [msgspec.to_builtins(action) for action in self.actions]
        return given


NO_OPTIONS = Options()


def check_options(
    url: str,
    timeout: Any,
    retries: Any,
    redirects: Any,
    handle: Any,
    session: Any,
    max_body: Any,
    save: Any = None,
    proxy: Any = None,
    actions: Any = None,
) -> Options:
    """The options of the request for ``url``. Raises BadRequest."""
    if timeout is not None and not (_is_number(timeout) and 0 < timeout <= MAX_TIMEOUT):
        raise _wrong(url, "timeout", f"a number of seconds above 0, up to {MAX_TIMEOUT}", timeout)
    for name, value in (("retries", retries), ("redirects", redirects)):
        if value is not None and not (_is_integer(value) and value >= 0):
            raise _wrong(url, name, "an int from 0", value)
    if max_body is not None and not (_is_integer(max_body) and max_body > 0):
        raise _wrong(url, "max_body", "a number of bytes above 0", max_body)
    if session is not None and not (isinstance(session, str) and _SESSION.fullmatch(session)):
        words = "a name of up to 100 letters, digits, '_', '.' and '-'"
        raise _wrong(url, "session", words, session)
    parts = None if handle is None else _ranges(url, handle)
    types = None if save is None or save is False else _types(url, save)
    if proxy is not None:
        try:
            proxy = parse_selector(proxy)
        except ValueError as error:
            raise BadRequest(f"request {url}: proxy {error}") from None
    todo = None if actions is None else check_actions(url, actions)
    return Options(timeout, retries, redirects, parts, session, max_body, types, proxy, todo)


def read_options(url: str, given: Mapping[str, Any]) -> Options:
    """The options written by ``encode``. Raises MissingCode for one of a newer Crawlframe, and
    BadRequest if they are invalid."""
    if not isinstance(given, Mapping):
        raise BadRequest(f"a queued request cannot be read: its options are {given!r}")
    if unknown := given.keys() - Options._fields:
        raise MissingCode(
            f"a queued request has the option {min(unknown)!r}, of a newer Crawlframe"
        )
    fields = {**NO_OPTIONS._asdict(), **given}
    if fields["handle"] is not None:
        try:
            fields["handle"] = [range(first, stop) for first, stop in fields["handle"]]
        except (TypeError, ValueError) as error:
            raise BadRequest(f"a queued request cannot be read: handle: {error}") from None
    return check_options(url, **fields)


def _ranges(url: str, handle: Any) -> tuple[range, ...]:
    """The statuses in order, as the fewest possible ranges."""
    words = "a list of HTTP statuses or ranges of them, such as [404, range(500, 600)]"
    if isinstance(handle, str | bytes) or not isinstance(handle, Iterable):
        raise _wrong(url, "handle", words, handle)
    statuses: set[int] = set()
    for part in handle:
        some = part if isinstance(part, range) else [part]
        if not all(_is_integer(status) and 100 <= status < 1000 for status in some):
            raise _wrong(url, "handle", words, part)
        statuses.update(some)
    parts: list[range] = []
    for status in sorted(statuses):
        if parts and parts[-1].stop == status:
            parts[-1] = range(parts[-1].start, status + 1)
        else:
            parts.append(range(status, status + 1))
    return tuple(parts)


def _types(url: str, save: Any) -> Literal[True] | tuple[str, ...]:
    if save is True:
        return True
    types = [save] if isinstance(save, str) else save
    if not isinstance(types, list | tuple) or not types or not all(map(_is_media_type, types)):
        words = 'True, or the media types that are saved, such as ["image/*", "application/pdf"]'
        raise _wrong(url, "save", words, save)
    return tuple(kind.lower() for kind in types)


def _is_media_type(kind: Any) -> bool:
    return isinstance(kind, str) and PATTERN.fullmatch(kind.lower()) is not None


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or _is_integer(value)


def _wrong(url: str, name: str, words: str, value: Any) -> BadRequest:
    return BadRequest(f"request {url}: {name} must be {words}, not {value!r}")
