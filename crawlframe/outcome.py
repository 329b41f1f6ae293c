"""Outcome: the result of one run of a request's callback, collected and not yet written."""

from __future__ import annotations

import decimal
import math
import uuid
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import orjson

from crawlframe.errors import BadRequest, SpiderError
from crawlframe.request import Admission, Request, make_rid

if TYPE_CHECKING:
    from crawlframe.response import Response

MAX_ITEM = 4 << 20  # bytes of JSON; one item must not block a database transaction
MAX_ITEMS = 64 << 20  # bytes of JSON of all items of one page
MAX_DELAY = 366 * 24 * 3600  # seconds a request may be put off
CANCELLED = "cancelled"  # the reason of a request that ended because its task was cancelled


class Verdict(StrEnum):
    """Where a request goes next."""

    DONE = "done"
    ERROR = "error"
    RETRY = "retry"
    DEFER = "defer"  # as RETRY, but no try was made that counts
    PARK = "park"
    RELEASE = "release"

    @property
    def final(self) -> bool:
        """True if the request ends, with a ledger row."""
        return self in (Verdict.DONE, Verdict.ERROR)


@dataclass(slots=True)
class Outcome:
    """One run of a request. ``fingerprints`` are those of ``follow_ups``, in the same order."""

    rid: bytes
    task: int
    host: str
    record: bytes
    attempts: int
    deliveries: int
    url: str = ""
    callback: str = ""
    depth: int = 0
    verdict: Verdict = Verdict.DONE
    reason: str = ""
    detail: str = ""
    delay: int = 0  # milliseconds until the next try
    status: int | None = None
    size: int = 0  # bytes of the body
    fetch_ms: int = 0
    items: list[bytes] = field(default_factory=list)  # JSON
    follow_ups: list[Admission] = field(default_factory=list)
    fingerprints: list[bytes] = field(default_factory=list)
    duplicates: int = 0  # follow-ups dropped by the worker's sieve
    cookies: dict[str, str] | None = None  # the task's cookies that this run changed
    version: str = ""  # of the code that ran

    def end(self, verdict: Verdict, reason: str = "", detail: str = "", delay: int = 0) -> Outcome:
        """Set where the request goes next; any verdict but DONE drops items and follow-ups."""
        self.verdict, self.reason, self.detail, self.delay = verdict, reason, detail, delay
        if verdict is not Verdict.DONE:
            self.items, self.follow_ups, self.fingerprints, self.duplicates = [], [], [], 0
        return self

    @property
    def cancelled(self) -> bool:
        """True if it ended only because its task was cancelled."""
        return self.verdict is Verdict.ERROR and self.reason == CANCELLED


class Collector:
    """Collects what a callback yields into an outcome."""

    def __init__(
        self,
        outcome: Outcome,
        *,
        priority: int,
        depth: int,
        depth_limit: int,
        allowed: Callable[[str], bool] | None,
        known: tuple[Container[bytes], Container[bytes]] = ((), ()),
        follow: Callable[[Request, Response | None], Request | None] | None = None,
        response: Response | None = None,
    ) -> None:
        """``depth`` is the depth of the requests yielded here; ``allowed`` returns whether a URL
        may be followed; ``known`` are fingerprints of this task that the ledger has recorded.
        ``follow`` is the spider's own, called with ``response``."""
        self._outcome = outcome
        self._priority = priority
        self._depth = depth
        self._too_deep = bool(depth_limit) and depth > depth_limit
        self._allowed = allowed
        self._known, self._known_too = known
        self._change = follow
        self._response = response
        self._here: set[bytes] = set()
        self._size = 0  # bytes of the items

    def take(self, thing: Any) -> None:
        """Take an item or a Request. Raises SpiderError or BadRequest with the reason."""
        if isinstance(thing, Request):
            request = thing if self._change is None else self._changed(thing, self._change)
            if request is not None:
                self._follow(request)
        elif thing is not None:
            item = encode_item(thing)
            self._size += len(item)
            if self._size > MAX_ITEMS:
                raise SpiderError(
                    f"the items of one page have more than {MAX_ITEMS} bytes as JSON; yield less, "
                    "or spread it over several requests"
                )
            self._outcome.items.append(item)

    def _changed(
        self, request: Request, change: Callable[[Request, Response | None], Any]
    ) -> Request | None:
        """What the spider's follow makes of it."""
        request.depth = self._depth
        changed = change(request, self._response)
        if changed is None or isinstance(changed, Request):
            return changed
        raise SpiderError(
            f"follow returned {type(changed).__name__} {str(changed)[:80]!r}; return the request, "
            "another one, or None to drop it"
        )

    def _follow(self, request: Request) -> None:
        outcome = self._outcome
        if self._too_deep:
            return
        if not request.dont_filter and self._allowed is not None and not self._allowed(request.url):
            return
        fingerprint = request.fingerprint()
        if request.dont_filter:
            fingerprint += b"\0%s%d" % (outcome.rid, len(outcome.follow_ups))
        if (
            fingerprint in self._known
            or fingerprint in self._known_too
            or fingerprint in self._here
        ):
            outcome.duplicates += 1
            return
        self._here.add(fingerprint)
        if not request.delay <= MAX_DELAY:
            raise BadRequest(
                f"request {request.url}: delay is {request.delay!r}; it must be a number of "
                f"seconds up to {MAX_DELAY}"
            )
        request.depth = self._depth
        outcome.follow_ups.append(
            Admission(
                make_rid(outcome.task, fingerprint),
                request.rank(self._priority),
                request.host,
                max(0, round(request.delay * 1000)),
                request.encode(),
            )
        )
        outcome.fingerprints.append(fingerprint)


def encode_item(item: Any) -> bytes:
    """Return the JSON object of an item: dict, dataclass, attrs or pydantic. U+0000, lone
    surrogates, NaN and infinities, which JSON columns refuse, are removed.

    Raises SpiderError naming the field."""
    if type(item) is not dict:
        from itemadapter import ItemAdapter  # imports pydantic, which most do not need

        if not ItemAdapter.is_item(item):
            raise SpiderError(
                f"a callback yielded {type(item).__name__} {str(item)[:80]!r}; yield items (dict, "
                "dataclass, attrs or pydantic) and Requests"
            )
        item = ItemAdapter(item).asdict()
    try:
        text = orjson.dumps(item, default=_plain)
    except (TypeError, ValueError):
        text = orjson.dumps(_clean(item, "item"))
    if b"\\u0000" in text:
        text = orjson.dumps(_clean(item, "item"))
    if len(text) > MAX_ITEM:
        raise SpiderError(f"an item has {len(text)} bytes as JSON; the limit is {MAX_ITEM}")
    return text


def clean_text(text: str) -> str:
    """Return the text without U+0000 and lone surrogates, which databases refuse."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def _plain(value: Any) -> Any:
    if isinstance(value, decimal.Decimal | uuid.UUID):
        return str(value)
    if isinstance(value, set | frozenset):
        return list(value)
    from itemadapter import ItemAdapter

    if ItemAdapter.is_item(value):
        return ItemAdapter(value).asdict()
    raise TypeError


def _clean(value: Any, path: str) -> Any:
    """The slow way: walk the item, repair what can be repaired and name what cannot."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {
            clean_text(str(key)): _clean(part, f"{path}[{key!r}]") for key, part in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_clean(part, f"{path}[{i}]") for i, part in enumerate(value)]
    try:
        return orjson.loads(orjson.dumps(value, default=_plain))
    except (TypeError, ValueError):
        mend = "decode it to text first" if isinstance(value, bytes) else "make it text or a number"
        raise SpiderError(f"{path} is {type(value).__name__}, which JSON has not; {mend}") from None
