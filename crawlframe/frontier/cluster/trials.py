"""Trials: kept pages that a node is asked to run the code of today over, and its answers; and
previews of other revisions."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from crawlframe.errors import FrontierError
from crawlframe.frontier.client.rows import StorePart

ORDER_MS = 120_000  # milliseconds after which an order is forgotten
KEPT_MS = 600_000  # milliseconds for which an answer is kept
ORDERS = 50  # orders that may wait
# In the place of a spider: no spider has this name, so no node of an older release takes it.
PREVIEW = "preview:"


class TrialOrder(msgspec.Struct, frozen=True):
    """``rid``: of the page, in hexadecimal digits. ``spider``: "" for a recipe, which every node
    has. ``preview``: number of the preview that is to be run instead, then the spider is PREVIEW;
    ``node``: only by this one."""

    rid: str
    spider: str
    preview: int = 0
    node: str = ""


class TrialState(msgspec.Struct, frozen=True):
    """``answer``: JSON, "" while there is none. ``waits``: no node has taken the order yet.
    ``waited``: seconds since it was given."""

    answer: str
    waits: bool
    waited: float


class Trials(StorePart):
    """Orders for trials of kept pages, which are lost with Redis. Raises redis.RedisError."""

    def ask(self, order: str, what: TrialOrder) -> None:
        """Gives an order, with an id of its own. Raises FrontierError while too many wait."""
        text, keys = msgspec.json.encode(what), self._store.keys[0]
        self._forget()
        if self._store.redis.hlen(keys("TRIALS")) >= ORDERS:
            raise FrontierError(f"{ORDERS} trials of kept pages wait for a node; try again later")
        self._store.redis.set(keys("TRIAL", order), text, px=ORDER_MS)
        self._store.redis.hset(keys("TRIALS"), order, text)
        self._store.redis.pexpire(keys("TRIALS"), ORDER_MS)

    def _forget(self) -> None:
        """Removes orders that are not waited for any more."""
        keys, redis = self._store.keys[0], self._store.redis
        for order in redis.hkeys(keys("TRIALS")):
            if not redis.exists(keys("TRIAL", order.decode())):
                redis.hdel(keys("TRIALS"), order)

    def take(self, fits: Callable[[TrialOrder], bool], most: int) -> dict[str, TrialOrder]:
        """Orders that fit, by their ids, which no other node gets."""
        found: dict[str, TrialOrder] = {}
        for order, what in self._rows.read_hash("TRIALS", _order):
            if len(found) == most:
                break
            if fits(what) and self._store.redis.hdel(self._store.keys[0]("TRIALS"), order):
                found[order] = what
        return found

    def read(self, order: str) -> TrialOrder | None:
        """The order that was taken; None if it is forgotten."""
        text = self._store.redis.get(self._store.keys[0]("TRIAL", order))
        return None if text is None else msgspec.json.decode(text, type=TrialOrder)

    def answer(self, order: str, text: bytes) -> None:
        """``text``: JSON."""
        keys = self._store.keys[0]
        self._store.redis.set(keys("TRIAL", f"{order}:answer"), text, px=KEPT_MS)

    def state(self, order: str) -> TrialState | None:
        """Returns None if there is no such order any more."""
        keys, redis = self._store.keys[0], self._store.redis
        if text := redis.get(keys("TRIAL", f"{order}:answer")):
            return TrialState(text.decode("utf-8", "replace"), False, 0.0)
        left = redis.pttl(keys("TRIAL", order))
        if left < 0:
            return None
        waits = bool(redis.hexists(keys("TRIALS"), order))
        return TrialState("", waits, (ORDER_MS - left) / 1000)


def _order(name: bytes, value: bytes) -> tuple[str, TrialOrder]:
    return name.decode(), msgspec.json.decode(value, type=TrialOrder)
