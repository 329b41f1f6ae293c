"""LoadingCache: values that take long to load, of which those used last are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, NamedTuple, TypeVar

from crawlframe.base.bounded_dict import BoundedDict

K = TypeVar("K")
V = TypeVar("V")


class LoadedValue(NamedTuple, Generic[V]):
    """A value, and the seconds for which it may be kept. ``first`` is raised to those who have
    waited for it, in place of the value."""

    value: V
    seconds: float
    first: BaseException | None = None


class LoadingCache(Generic[K, V]):
    """At most ``most`` values; each is loaded once for all that ask for it at a time. Use it from
    one event loop. ``clock`` returns seconds."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: BoundedDict[K, tuple[V, float]] = BoundedDict(most)
        self._loading: dict[K, asyncio.Task[LoadedValue[V]]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def is_loading(self, key: K) -> bool:
        return key in self._loading

    def find(self, key: K) -> V | None:
        """The value of a key, if it is kept and may be used."""
        kept = self._kept.use(key)
        return kept[0] if kept is not None and kept[1] > self._clock() else None

    async def get(self, key: K, load: Callable[[], Coroutine[Any, Any, LoadedValue[V]]]) -> V:
        """The value of a key. Raises what ``load`` raises, to all that wait for it. A load goes on
        when the one who asked for it is cancelled."""
        if (kept := self.find(key)) is not None:
            return kept
        loading = self._loading.get(key)
        if loading is None:
            loading = asyncio.ensure_future(load())
            self._loading[key] = loading
            loading.add_done_callback(lambda done: self._keep(key, done))
        loaded = await asyncio.shield(loading)
        if loaded.first is not None:
            raise loaded.first
        return loaded.value

    def clear(self) -> None:
        """Forgets all values, those too that are being loaded."""
        self._kept.clear()
        self._loading.clear()

    def _keep(self, key: K, done: asyncio.Task[LoadedValue[V]]) -> None:
        current = self._loading.get(key) is done
        if current:
            del self._loading[key]
        if done.cancelled() or done.exception() is not None:  # whoever waited for it has it
            return
        loaded = done.result()
        if current:
            self._kept[key] = loaded.value, self._clock() + loaded.seconds
