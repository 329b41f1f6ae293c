"""Difference: differences between a recorded result and a new one, by field, in words."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from typing import Any

from crawlframe.pages.secrets import Secrets
from crawlframe.recorded.matching import key_of, matched
from crawlframe.request.values import request_to_json
from crawlframe.testing.result import Result

MOST_REQUESTS = 1000  # of one page that are compared one by one
MAX_VALUE = 120  # characters of a value that is shown
MAX_LINES = 50  # lines of one page
PLURAL = {"items": "item", "requests": "request", "proxies": "proxy"}


def differences(
    recorded: dict[str, Any], now: dict[str, Any], ignore: Iterable[str] = ()
) -> list[str]:
    """Returns a line for each difference, such as ``items[2].price: '12.00' → None``; none if they
    are the same. ``ignore``: parts that are not compared, such as ``stats`` or
    ``items.scraped_at``."""
    ignored = {*ignore}
    lines = list(_parts(recorded, now, ignored))
    if len(lines) > MAX_LINES:
        lines[MAX_LINES:] = [f"and {len(lines) - MAX_LINES} more"]
    return lines


def volatile(recorded: dict[str, Any], now: dict[str, Any]) -> set[str]:
    """Returns the parts that have changed though the code and the page are the same, in the form
    of ``ignore``: fields of items whose values changed, and ``requests``, ``stats`` or
    ``maxima``. Empty if something else has changed."""
    found: set[str] = set()
    for name in recorded.keys() | now.keys():
        before, after = recorded.get(name), now.get(name)
        if before == after:
            continue
        if name == "items":
            if not isinstance(before, list) or not isinstance(after, list):
                return set()
            if not _same_shape(before, after):
                return set()
            found |= {f"items.{field}" for field in _changed(before, after)}
        elif name in ("requests", "more_requests", "stats", "maxima"):
            found.add(name.removeprefix("more_"))
        else:
            return set()
    return found


def _same_shape(before: list[Any], after: list[Any]) -> bool:
    if len(before) != len(after):
        return False
    pairs = list(zip(before, after, strict=True))
    return all(isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys()
               for a, b in pairs)  # fmt: skip


def _changed(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> Iterator[str]:
    for one, other in zip(before, after, strict=True):
        yield from (field for field in one if one[field] != other[field])


def _parts(recorded: dict[str, Any], now: dict[str, Any], ignored: set[str]) -> Iterator[str]:
    names = dict.fromkeys([*recorded, *now])
    for name in names:
        if name in ignored or (name == "more_requests" and "requests" in ignored):
            continue
        before, after = recorded.get(name), now.get(name)
        if isinstance(before, list | None) and isinstance(after, list | None):
            yield from _lists(name, before or [], after or [], ignored)
        else:
            yield from _values(name, before, after, name, ignored)


def _lists(name: str, before: list[Any], after: list[Any], ignored: set[str]) -> Iterator[str]:
    """Differences of two lists."""
    was, now = ([_key(one, name, ignored) for one in some] for some in (before, after))
    one = PLURAL.get(name, name)
    for old, new in matched(before, after, was, now):
        if new is None and old is not None:
            yield f"{name}[{old}]: {one} is gone: {_shown(before[old])}"
        elif old is None and new is not None:
            yield f"{name}[{new}]: {one} is new: {_shown(after[new])}"
        elif old is not None and new is not None and was[old] != now[new]:
            place = f"{name}[{new}]"
            if isinstance(before[old], dict) and isinstance(after[new], dict):
                yield from _values(place, before[old], after[new], name, ignored)
            else:
                yield f"{place}: {_shown(before[old])} → {_shown(after[new])}"


def _values(place: str, before: Any, after: Any, path: str, ignored: set[str]) -> Iterator[str]:
    if path in ignored or _same(before, after):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys([*before, *after]):
            inner, way = f"{place}.{name}", f"{path}.{name}"
            if way in ignored:
                continue
            if name not in after:
                yield f"{inner}: is gone; was {_shown(before[name])}"
            elif name not in before:
                yield f"{inner}: is new: {_shown(after[name])}"
            else:
                yield from _values(inner, before[name], after[name], way, ignored)
        return
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for n, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _values(f"{place}[{n}]", one, other, path, ignored)
        return
    kinds = ""
    if type(before) is not type(after) and None not in (before, after):
        kinds = f" (was {_kind(before)}, is {_kind(after)})"
    yield f"{place}: {_shown(before)} → {_shown(after)}{kinds}"


def _same(one: Any, other: Any) -> bool:
    """Whether both are the same as JSON: 1, 1.0 and True are not."""
    return one == other and key_of(one) == key_of(other)


def _key(value: Any, path: str, ignored: set[str]) -> str:
    return key_of(_without(value, path, ignored))


def _without(value: Any, path: str, ignored: set[str]) -> Any:
    if not ignored:
        return value
    if isinstance(value, dict):
        kept = {name: f"{path}.{name}" for name in value}
        return {
            name: _without(value[name], way, ignored)
            for name, way in kept.items()
            if way not in ignored
        }
    if isinstance(value, list):
        return [_without(one, path, ignored) for one in value]
    return value


def _kind(value: Any) -> str:
    return {"str": "text", "dict": "an object", "list": "a list", "bool": "a bool"}.get(
        type(value).__name__, f"{type(value).__name__}"
    )


def _shown(value: Any) -> str:
    text = repr(value)
    if len(text) <= MAX_VALUE:
        return text
    return f"{text[: MAX_VALUE - 1]}…"


def snapshot_of(result: Result, secrets: Secrets) -> dict[str, Any]:
    """Returns the parts of a result that have a value, as JSON without secrets."""
    requests = [request_to_json(request) for request in result.requests]
    for given in requests:
        secrets.learn_from(secrets.request, given)
    shown = [secrets.request(given) for given in requests[:MOST_REQUESTS]]
    for given, request in zip(shown, result.requests, strict=False):
        if request.delay:
            given["delay"] = request.delay
    found = {
        "end": result.end,
        "reason": result.reason,
        "closing": secrets.text(result.closing),
        "items": secrets.value(result.items),
        "requests": shown,
        "more_requests": max(0, len(requests) - MOST_REQUESTS),
        "proxies": secrets.value([repr(one) for one in result.proxies]),
        "dropped": secrets.value(result.dropped),
        "unfollowed": secrets.value(result.unfollowed),
        "stats": secrets.value(result.stats),
        "maxima": secrets.value(result.maxima),
    }
    return {name: value for name, value in found.items() if value}


def snapshot_of_error(error: BaseException, secrets: Secrets) -> dict[str, Any]:
    """Returns the snapshot of a callback that raised."""
    words = "".join(traceback.format_exception_only(error)).strip()
    return {"end": "error", "reason": "callback", "raised": readable(secrets.text(words))}


def readable(text: str) -> str:
    """Text of an error, without characters that no UTF-8 has: halves that JSON of a page had."""
    return text.encode("utf-8", "backslashreplace").decode()
