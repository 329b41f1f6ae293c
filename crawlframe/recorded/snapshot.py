"""Snapshot: what one run of a callback led to, as it is stored and compared."""

from __future__ import annotations

import traceback
from typing import Any

from crawlframe.recorded.secrets import Secrets
from crawlframe.recorded.values import request_to_json
from crawlframe.testing.result import Result

MOST_REQUESTS = 1000  # of one page that are compared one by one


def snapshot_of(result: Result, secrets: Secrets) -> dict[str, Any]:
    """Returns the parts of a result that have a value, as JSON without secrets."""
    requests = [request_to_json(request) for request in result.requests]
    for given in requests:
        secrets.learn_request(given)
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
    """Text of an error, without what no UTF-8 has: halves of characters that JSON of a page had."""
    return text.encode("utf-8", "backslashreplace").decode()
