"""A cache for results that are expensive and stay valid for some seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class TtlCached(Generic[P, T]):
    """A function whose result is returned again for the same arguments, in this process, for some
    seconds, or ``times`` as long as it took. Concurrent callers wait for the caller that computes
    it."""

    def __init__(self, function: Callable[P, T], seconds: float, times: float) -> None:
        self._function = function
        self._seconds, self._times = seconds, times
        self._lock = Lock()
        self._answers: dict[object, tuple[float, T]] = {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        key = (args, *kwargs.items())
        with self._lock:
            now = time.monotonic()
            if key in self._answers and self._answers[key][0] > now:
                return self._answers[key][1]
            answer = self._function(*args, **kwargs)
            self._answers = {k: kept for k, kept in self._answers.items() if kept[0] > now}
            done = time.monotonic()
            self._answers[key] = done + max(self._seconds, self._times * (done - now)), answer
            return answer

    def clear(self) -> None:
        self._answers = {}


def ttl_cache(
    seconds: float = 0, *, times: float = 0
) -> Callable[[Callable[P, T]], TtlCached[P, T]]:
    return lambda function: TtlCached(function, seconds, times)
